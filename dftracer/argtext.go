package dftracer

import "github.com/trainspan/trainspan/internal/jsontext"

// Plain reports whether an argument of that name is written under it whatever
// the others are: the name is short, needs no escapes, and the format does not
// own it.
func Plain(key string) bool {
	if len(key) > 32 || owned(key) {
		return false
	}
	for i := range len(key) {
		if !jsontext.Plain[key[i]] {
			return false
		}
	}
	return true
}

// WriteEncoded is WriteComplete for arguments that are text already, each as lines
// hold it: `,"key":12`. Arguments can so be encoded where they are known, without Args
// between. Their keys must be [Plain] and different from each other; other text makes a
// line that readers refuse. A hash must be written as the dialect of the Writer does.
// args is not kept.
func (w *Writer) WriteEncoded(key *Key, s Span, args []byte) {
	if len(args) > maxArgs {
		all, _ := AppendObject(nil, append(append([]byte{'{'}, args[1:]...), '}')) // of other text what is before the damage
		w.WriteComplete(key, s, all...)
		return
	}
	w.complete(key, &s, nil, args)
}
