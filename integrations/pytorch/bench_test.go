package pytorch_test

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/integrations/pytorch"
)

// nullSink counts events.
type nullSink struct{ n int64 }

func (s *nullSink) Write(*dftracer.Event) { s.n++ }

// BenchmarkImport maps a whole trace: a generated one, and a real one where it
// is present. The rate is that of decompressed input.
func BenchmarkImport(b *testing.B) {
	b.Run("generated", func(b *testing.B) { benchImport(b, generated(60_000, 1), 0) })
	packed, err := os.ReadFile(sharedTraces + "ddp_v100_2gpu_compiled_eager_memory_torch2.0dev.json.gz")
	if err != nil {
		b.Log("no real traces here: ", err)
		return
	}
	zr, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		b.Fatal(err)
	}
	n, err := io.Copy(io.Discard, zr)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("real-gzip", func(b *testing.B) { benchImport(b, packed, n) })
}

func benchImport(b *testing.B, data []byte, size int64) {
	if size == 0 {
		size = int64(len(data))
	}
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		src := pytorch.Source{Name: "x.json", Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
		if _, err := pytorch.Import(b.Context(), &nullSink{}, []pytorch.Source{src}, nil); err != nil {
			b.Fatal(err)
		}
	}
}
