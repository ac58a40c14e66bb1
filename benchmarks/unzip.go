package benchmarks

import (
	"bytes"
	"compress/gzip"
	"io"
)

func decompress(packed []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}
