package tracefile

import (
	"crypto/md5" //nolint:gosec // the format prescribes it; nothing secret is hashed
	"encoding/binary"
	"strconv"
	"sync"
	"unsafe"

	"github.com/trainspan/trainspan/internal/tracefile/jsontext"
)

// Dialect is a generation of the format.
type Dialect uint8

// The dialects, named after the releases that wrote them.
const (
	// V2 is the default: hash strings of sixteen hex digits, letter phases,
	// id, level and p_idx, framed by a line "[" and a last line "]".
	// Every known reader accepts it.
	V2 Dialect = iota
	// V1 is the first generation: like V2, but with hashes as bare 64-bit numbers.
	V1
	// V22 is the newest: integer phases, a type column, no brackets, no
	// level and p_idx unless Options.Nesting asks for them.
	V22
)

// String returns "V1", "V2" or "V22".
func (d Dialect) String() string {
	switch d {
	case V1:
		return "V1"
	case V2:
		return "V2"
	case V22:
		return "V22"
	}
	return "Dialect(" + strconv.Itoa(int(d)) + ")"
}

// Hash stands for a host, file or other string in a trace.
// Hashes of different dialects differ.
type Hash uint64

// HashOf returns the hash of s: sixteen of the 32 hex digits of its MD5. V1
// keeps the high digit of each byte; later dialects keep the bytes at even positions.
func HashOf(d Dialect, s string) Hash {
	sum := md5.Sum([]byte(s)) //nolint:gosec // see the import
	var h [8]byte
	for i := range h {
		if d == V1 {
			h[i] = sum[2*i]&0xf0 | sum[2*i+1]>>4
		} else {
			h[i] = sum[2*i]
		}
	}
	return Hash(binary.BigEndian.Uint64(h[:]))
}

// HashText returns the hash in the dialect's form, without quotes.
func HashText(h Hash, d Dialect) string { return string(h.appendText(nil, d)) }

// AppendHash appends the hash as the dialect writes it: a number in V1, a string otherwise.
func AppendHash(h Hash, dst []byte, d Dialect) []byte {
	if d == V1 {
		return jsontext.AppendUint(dst, uint64(h))
	}
	dst = append(dst, '"')
	dst = h.appendText(dst, d)
	return append(dst, '"')
}

func (h Hash) appendText(dst []byte, d Dialect) []byte {
	if d == V1 {
		return jsontext.AppendUint(dst, uint64(h))
	}
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, "0123456789abcdef"[h>>shift&15])
	}
	return dst
}

// Hashes resolves the hashes of a trace to the names behind them, as far as
// their records were read. It is safe for concurrent use; a nil Hashes resolves
// nothing.
type Hashes struct {
	mu    sync.RWMutex
	names map[hashKey]string
}

type hashKey struct {
	kind byte // first letter of HH, FH, SH
	text string
}

// Host returns the host name behind the text of a hash.
func (h *Hashes) Host(text string) (string, bool) { return h.lookup(NameHostHash, text) }

// File returns the file name behind the text of a hash, such as an fhash
// argument.
func (h *Hashes) File(text string) (string, bool) { return h.lookup(NameFileHash, text) }

// String returns the string behind the text of a hash, such as a cmd_hash
// argument.
func (h *Hashes) String(text string) (string, bool) { return h.lookup(NameStringHash, text) }

// Len returns how many hashes have names.
func (h *Hashes) Len() int {
	if h == nil {
		return 0
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.names)
}

func (h *Hashes) lookup(kind, text string) (string, bool) {
	if h == nil {
		return "", false
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	name, ok := h.names[hashKey{kind[0], text}]
	return name, ok
}

// Note adds a hash record; it ignores other events.
func (h *Hashes) Note(ev *Event) {
	if h == nil || ev.Phase != PhaseMetadata || len(ev.Name) != 2 || ev.Name[1] != 'H' {
		return
	}
	switch ev.Name {
	case NameHostHash, NameFileHash, NameStringHash:
	default:
		return
	}
	name, text := ev.Meta()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.names == nil {
		h.names = make(map[hashKey]string)
	}
	h.names[hashKey{ev.Name[0], text}] = name
}

// interner converts bytes to strings and reuses recent ones, because a trace
// repeats few names millions of times. Its size is bounded.
type interner struct {
	table [1024]string
}

// hashFactor spreads bits over a product: 2^64 by the golden ratio.
const hashFactor = 0x9e3779b97f4a7c15

// maxInterned is the length of the longest string that is kept.
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
		h = binary.LittleEndian.Uint64(b) ^ binary.LittleEndian.Uint64(b[n-8:])*hashFactor
	case n >= 4:
		h = uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint32(b[n-4:]))<<32
	default:
		h = uint64(b[0]) | uint64(b[n/2])<<8 | uint64(b[n-1])<<16
	}
	h = (h ^ uint64(n)) * hashFactor
	slot := &t.table[h>>54]
	if *slot != string(b) {
		*slot = string(b)
	}
	return *slot
}

// view returns bytes as a string without a copy, for strconv. The string must
// not be kept.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
