package dftracer

// Plain reports whether an argument of that name is written under it whatever
// the others are: the name is short, needs no escapes, and the format does not
// own it.
func Plain(key string) bool {
	if len(key) > 32 || owned(key) {
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
	dst, _ = appendKey(dst, key)
	return appendInt(dst, v)
}

// AppendString is AppendInt for a string.
func AppendString(dst []byte, key, v string) []byte {
	dst, _ = appendKey(dst, key)
	return appendString(dst, v)
}

// AppendArg is AppendInt for any argument. A hash is written as V2 does.
func AppendArg(dst []byte, a Arg) []byte {
	dst, _ = appendKey(dst, a.Key)
	return appendValue(dst, &a, V2)
}

// maxArgs is how much text of arguments fits into a line whatever its names are.
const maxArgs = maxLine - 6*2*maxKeyPart - 512

// WriteEncoded is WriteComplete for arguments that AppendInt and the like have
// appended to each other. Other text makes a line that readers refuse. args is not kept.
func (w *Writer) WriteEncoded(key *Key, s Span, args []byte) {
	if len(args) > maxArgs {
		all, _ := AppendObject(nil, append(append([]byte{'{'}, args[1:]...), '}')) // of other text than that of AppendArg what is before
		w.WriteComplete(key, s, all...)
		return
	}
	w.complete(key, &s, nil, args)
}
