package dftracer

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
func (k Key) WithType(t Type) Key {
	k.typ = t
	return k
}

// Cat returns the category.
func (k Key) Cat() string { return k.cat }

// Name returns the event name.
func (k Key) Name() string { return k.name }

func appendHead(dst []byte, cat, name string) []byte {
	dst = append(dst, `,"name":`...)
	dst = jsontext.AppendString(dst, name)
	dst = append(dst, `,"cat":`...)
	return jsontext.AppendString(dst, cat)
}
