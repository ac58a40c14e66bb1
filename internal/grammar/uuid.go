package grammar

import "encoding/hex"

// AppendUUID appends a span's identity as the reference writes identities: a version
// 4 UUID. It holds all bits of the span id, so that spans of a process differ.
func AppendUUID(dst []byte, traceID [16]byte, spanID [8]byte) []byte {
	var b [16]byte
	copy(b[:6], spanID[:6])
	b[6] = 0x40 | traceID[6]&0x0f
	b[7] = spanID[6]
	b[8] = 0x80 | traceID[8]&0x3f
	b[9] = spanID[7]
	copy(b[10:], traceID[10:])
	var t [36]byte
	hex.Encode(t[0:8], b[0:4])
	hex.Encode(t[9:13], b[4:6])
	hex.Encode(t[14:18], b[6:8])
	hex.Encode(t[19:23], b[8:10])
	hex.Encode(t[24:36], b[10:16])
	t[8], t[13], t[18], t[23] = '-', '-', '-', '-'
	return append(dst, t[:]...)
}
