// Package gziptest compresses and decompresses data in tests.
package gziptest

import (
	"bytes"
	"io"
	"testing"

	"github.com/klauspost/compress/gzip"
)

// Pack returns gzip members, one for each text.
func Pack(texts ...[]byte) []byte {
	var out bytes.Buffer
	for _, text := range texts {
		z := gzip.NewWriter(&out)
		_, _ = z.Write(text) // in memory
		_ = z.Close()
	}
	return out.Bytes()
}

// Text returns the content of gzip members, and other data unchanged.
func Text(t testing.TB, data []byte) []byte {
	t.Helper()
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
