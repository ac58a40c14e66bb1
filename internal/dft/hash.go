package dft

import (
	"crypto/md5" //nolint:gosec // the format prescribes it; nothing secret is hashed
	"encoding/binary"
	"strconv"

	"github.com/trainspan/trainspan/internal/jsontext"
)

// Dialect is a generation of the format.
type Dialect uint8

// The dialects, named after the releases that wrote them.
const (
	// V2 is the default: hash strings of sixteen hex digits, letter phases,
	// id, level and p_idx, framed by a line "[" and a last line "]".
	// Every known reader accepts it.
	V2 Dialect = iota
	// V1 is the first generation: as V2, with hashes as bare 64-bit numbers.
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

// HashText returns the hash as the dialect spells it, without quotes.
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
