package dft

import "github.com/trainspan/trainspan/internal/jsontext"

// Key is a category and an event name, encoded once. Programs that write the
// same few names millions of times make their Keys beforehand. The zero Key
// has an empty category and name. A Key fits every Writer and never changes.
type Key struct {
	cat, name string
	head      string // `,"name":"forward","cat":"compute"`
	typ       Type
}

// maxKeyPart bounds the names inside a Key, so that lines made from Keys stay short.
const maxKeyPart = 512

// NewKey returns the Key of a category and a name. Parts above 512 bytes are shortened.
func NewKey(cat, name string) Key {
	cat, _ = shorten(cat, maxKeyPart)
	name, _ = shorten(name, maxKeyPart)
	return Key{cat: cat, name: name, head: string(appendHead(nil, cat, name))}
}

// WithType returns the Key with the producer column of V22 set.
func WithType(k Key, t Type) Key {
	k.typ = t
	return k
}

// KeyCat returns the category of a Key.
func KeyCat(k Key) string { return k.cat }

// KeyName returns the event name of a Key.
func KeyName(k Key) string { return k.name }

func appendHead(dst []byte, cat, name string) []byte {
	dst = append(dst, `,"name":`...)
	dst = jsontext.AppendString(dst, name)
	dst = append(dst, `,"cat":`...)
	return jsontext.AppendString(dst, cat)
}

// Long returns the complete event of a Key whose line may be too long.
func Long(k *Key, s Span, args []Arg) *Event {
	return &Event{ID: s.ID, Name: k.name, Cat: k.cat, Type: k.typ, TID: s.TID, TS: s.TS, Dur: s.Dur,
		Level: s.Level, Parent: s.Parent, Args: append([]Arg(nil), args...)}
}
