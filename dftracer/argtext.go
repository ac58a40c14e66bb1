package dftracer

// Plain reports whether an argument of that name is written under it whatever
// the others are: the name is short, needs no escapes, and the format does not
// own it.
func Plain(key string) bool {
	if len(key) > 32 || key == "level" || key == "p_idx" || key == "hhash" {
		return false
	}
	for i := range len(key) {
		if !plain[key[i]] {
			return false
		}
	}
	return true
}

// AppendInt appends an integer argument to dst as text, `,"key":12`: the form in
// which lines hold it and Writer.WriteEncoded takes it. Arguments can so be
// encoded where they are known, without Args between. The key must be Plain, and
// not among those of dst.
func AppendInt(dst []byte, key string, v int64) []byte {
	return appendInt(appendKey(dst, key), v)
}

// AppendString is AppendInt for a string.
func AppendString(dst []byte, key, v string) []byte {
	return appendString(appendKey(dst, key), v)
}

// AppendArg is AppendInt for any argument. A hash is written as V2 does.
func AppendArg(dst []byte, a Arg) []byte { return appendValue(appendKey(dst, a.Key), &a, V2) }

// maxArgs is how much text of arguments fits into a line whatever its names are.
const maxArgs = maxLine - 6*2*maxKeyPart - 512

// WriteEncoded is WriteComplete for arguments that AppendInt and the like have
// appended to each other. Other text makes a line that readers refuse. args is not kept.
func (w *Writer) WriteEncoded(key *Key, s Span, args []byte) {
	if len(args) > maxArgs {
		w.WriteComplete(key, s, decodeArgs(args)...)
		return
	}
	w.complete(key, &s, nil, args)
}

// decodeArgs makes Args of their text.
func decodeArgs(text []byte) []Arg {
	line := append([]byte(`{"ph":"X","args":{`), text[1:]...)
	var p parser
	var ev Event
	if err := p.parse(append(line, '}', '}'), &ev); err != nil {
		return nil // no text of AppendArg
	}
	return ev.Args
}
