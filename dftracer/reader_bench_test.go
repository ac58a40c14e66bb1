package dftracer_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
)

// benchTrace returns the text of a trace of training steps.
func benchTrace(b *testing.B, n int) []byte {
	b.Helper()
	var text bytes.Buffer
	w, err := dftracer.NewWriter(&text, &dftracer.Options{Compression: dftracer.CompressNone})
	if err != nil {
		b.Fatal(err)
	}
	writeSteps(w, 4242, n)
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return text.Bytes()
}

func benchRead(b *testing.B, data []byte, size int) {
	b.Helper()
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		r, err := dftracer.NewReader(bytes.NewReader(data), nil)
		if err != nil {
			b.Fatal(err)
		}
		for {
			if _, err := r.Next(); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
		if st := r.Stats(); st.Bad > 0 || st.Slow > 0 {
			b.Fatalf("stats %+v, want no bad and no slow lines", st)
		}
	}
}

func BenchmarkReaderText(b *testing.B) {
	text := benchTrace(b, 100000)
	benchRead(b, text, len(text))
}

func BenchmarkReaderGzip(b *testing.B) {
	text := benchTrace(b, 100000)
	benchRead(b, gziptest.Pack(text), len(text))
}

func BenchmarkReaderReal(b *testing.B) {
	f, err := os.Open(realTraces(b)[0])
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	z, err := gzip.NewReader(f)
	if err != nil {
		b.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		b.Fatal(err)
	}
	benchRead(b, text, len(text))
}

func BenchmarkScan(b *testing.B) {
	path := filepath.Join(b.TempDir(), "trace.pfw.gz")
	w, err := dftracer.Create(path, nil)
	if err != nil {
		b.Fatal(err)
	}
	writeSteps(w, 4242, 300000)
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	for _, bench := range []struct {
		name string
		opts dftracer.ReaderOptions
	}{{"concurrent", dftracer.ReaderOptions{Concurrent: true}}, {"ordered", dftracer.ReaderOptions{}}, {"one worker", dftracer.ReaderOptions{Workers: 1}}} {
		b.Run(bench.name, func(b *testing.B) {
			b.SetBytes(int64(w.Stats().Bytes))
			for b.Loop() {
				if _, err := dftracer.Scan(path, &bench.opts, func(*dftracer.Event) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
