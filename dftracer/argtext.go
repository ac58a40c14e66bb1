package dftracer

// AppendInt appends an integer argument to dst as text, `,"key":12`: the form in
// which lines hold it and Writer.WriteEncoded takes it. Arguments can so be
// encoded where they are known, without Args between.
func AppendInt(dst []byte, key string, v int64) []byte {
	return appendInt(appendMember(dst, key), v)
}

// AppendString is AppendInt for a string.
func AppendString(dst []byte, key, v string) []byte {
	return appendString(appendMember(dst, key), v)
}

// AppendArg is AppendInt for any argument. A hash is written as V2 does.
func AppendArg(dst []byte, a Arg) []byte { return appendArg(dst, &a, V2) }

func appendArg(dst []byte, a *Arg, d Dialect) []byte {
	dst = appendMember(dst, a.Key)
	switch a.kind {
	case KindInt:
		return appendInt(dst, int64(a.num))
	case KindString:
		return appendString(dst, a.str)
	}
	return a.AppendJSON(dst, d)
}

// appendMember appends the start of a member: a comma and the key of an argument.
func appendMember(dst []byte, key string) []byte {
	if len(key) == 5 && (key == "level" || key == "p_idx" || key == "hhash") {
		dst = append(dst, `,"user_`...) // the format owns these three
		dst = appendEscaped(dst, key)
		return append(dst, '"', ':')
	}
	return appendKey(dst, key)
}

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
