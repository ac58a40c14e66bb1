package dft

import (
	"encoding/binary"
	"unsafe"
)

// interner turns bytes into strings and remembers the recent ones: a trace
// repeats few names millions of times. It forgets, so its size is bounded.
type interner struct {
	table [1024]string
}

// maxInterned is the longest string worth remembering.
const maxInterned = 64

func (t *interner) get(b []byte) string {
	n := len(b)
	if n == 0 {
		return ""
	}
	if n > maxInterned {
		return string(b)
	}
	var h uint64
	switch {
	case n >= 8:
		h = binary.LittleEndian.Uint64(b) ^ binary.LittleEndian.Uint64(b[n-8:])*0x9e3779b97f4a7c15
	case n >= 4:
		h = uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint32(b[n-4:]))<<32
	default:
		h = uint64(b[0]) | uint64(b[n/2])<<8 | uint64(b[n-1])<<16
	}
	h = (h ^ uint64(n)) * 0x9e3779b97f4a7c15
	slot := &t.table[h>>54]
	if *slot != string(b) {
		*slot = string(b)
	}
	return *slot
}

// view lets strconv look at bytes without a copy. The string must not be kept.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
