package ring

import (
	"sync/atomic"
	"unsafe"
)

// load and store access a word of a mapping that the writer accesses too. The
// mapping begins on a page and offsets are multiples of eight, so that the word
// is aligned.
func load(b []byte, at int) uint64 {
	_ = b[at+7]
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&b[at])))
}

func store(b []byte, at int, v uint64) {
	_ = b[at+7]
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&b[at])), v)
}
