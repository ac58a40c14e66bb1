package assemble

import "hash/maphash"

// Key identifies a span among all traces.
type Key struct {
	Trace [16]byte
	Span  [8]byte
}

// IsZero reports whether there is no span id: the key of no span.
func (k Key) IsZero() bool { return k.Span == [8]byte{} }

// mark tells events of one span apart. Names can be long and are the sender's,
// so it has their hash.
type mark struct {
	name uint64
	time int64
}

var markSeed = maphash.MakeSeed()
