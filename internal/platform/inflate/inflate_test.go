package inflate_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/inflate"
)

// texts returns texts of several kinds: lines of a trace, few letters, random
// bytes, long runs, and mixtures.
func texts() (all [][]byte) {
	rng := rand.New(rand.NewPCG(1, 2))
	kinds := []func(*bytes.Buffer){
		func(b *bytes.Buffer) {
			fmt.Fprintf(b, `{"id":%d,"name":"read","ts":%d,"dur":%d}`+"\n", b.Len(), 1_700_000_000_000_000+rng.Int64N(1e9), rng.IntN(5000))
		},
		func(b *bytes.Buffer) { b.WriteByte("abcd"[rng.IntN(4)]) },
		func(b *bytes.Buffer) { b.WriteByte(byte(rng.Uint32())) },
		func(b *bytes.Buffer) { b.Write(bytes.Repeat([]byte{byte(rng.Uint32())}, rng.IntN(700))) },
		func(b *bytes.Buffer) { b.WriteString("seven c"[:1+rng.IntN(7)]) },
		func(b *bytes.Buffer) { // letters with very different frequencies, so that codes are long
			n := 0
			for n < 200 && rng.IntN(2) == 0 {
				n++
			}
			b.WriteByte(byte(n))
		},
	}
	for _, size := range []int{0, 1, 2, 100, 5000, 150_000} {
		for i := range len(kinds) + 1 {
			var b bytes.Buffer
			for b.Len() < size {
				kinds[(i+max(i-len(kinds)+1, 0)*rng.IntN(len(kinds)))%len(kinds)](&b)
			}
			all = append(all, b.Bytes())
		}
	}
	return all
}

func packed(t testing.TB, text []byte, level int) []byte {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestMember(t *testing.T) {
	var d inflate.Decoder
	for _, text := range texts() {
		for _, level := range []int{0, 1, 6, 9, gzip.HuffmanOnly} {
			member := packed(t, text, level)
			for _, after := range []string{"", "x", "\x1f\x8b\x08\x00 and more"} {
				got, n, ok := d.Member(append(bytes.Clone(member), after...), len(text))
				if !ok || n != len(member) || !bytes.Equal(got, text) {
					t.Fatalf("level %d, %d bytes of text: got %d bytes, length %d of %d, %v; want the text", level, len(text), len(got), n, len(member), ok)
				}
			}
			if _, _, ok := d.Member(member[:len(member)-1], len(text)); ok {
				t.Fatalf("level %d, %d bytes of text: a member without its last byte is accepted", level, len(text))
			}
			if _, _, ok := d.Member(member, len(text)-1); ok {
				t.Fatalf("level %d, %d bytes of text: accepted with a limit of one byte less", level, len(text))
			}
		}
	}
}

// FuzzMember compares with the standard library. What the decoder accepts must
// be what the library accepts, with the same text.
func FuzzMember(f *testing.F) {
	for _, text := range texts() {
		if len(text) <= 5000 {
			for _, level := range []int{0, 1, 6, gzip.HuffmanOnly} {
				f.Add(packed(f, text, level), uint16(17), byte(1))
			}
		}
	}
	var d inflate.Decoder
	f.Fuzz(func(t *testing.T, member []byte, at uint16, change byte) {
		check(t, &d, member)
		if len(member) > 0 {
			member = bytes.Clone(member)
			member[int(at)%len(member)] ^= change
			check(t, &d, member)
		}
	})
}

func check(t *testing.T, d *inflate.Decoder, member []byte) {
	const limit = 1 << 20
	text, n, ok := d.Member(member, limit)
	if !ok {
		return
	}
	from := bytes.NewReader(member)
	z, err := gzip.NewReader(from)
	if err != nil {
		t.Fatalf("accepted, but gzip.NewReader: %v", err)
	}
	z.Multistream(false)
	want, err := io.ReadAll(z)
	if err != nil || !bytes.Equal(text, want) || n != len(member)-from.Len() {
		t.Fatalf("got %d bytes from %d, want %d from %d, %v", len(text), n, len(want), len(member)-from.Len(), err)
	}
}
