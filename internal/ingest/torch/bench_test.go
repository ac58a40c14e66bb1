package torch_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/torch"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
)

// nullSink counts events.
type nullSink struct{ n int64 }

func (s *nullSink) Write(*dftracer.Event) { s.n++ }

// benchTraces runs a benchmark for a generated trace, and for the large real
// ones if they exist.
func benchTraces(b *testing.B, bench func(b *testing.B, name string, data []byte, size int64)) {
	b.Run("generated", func(b *testing.B) {
		data := generated(60_000, 1)
		bench(b, "x.json", data, int64(len(data)))
	})
	for _, m := range []struct{ short, file string }{
		{"real-ddp", "ddp_v100_2gpu_compiled_eager_memory_torch2.0dev.json.gz"},
		{"real-torch1.9", "cpu_gpu_memory_torch1.9_nw0.pt.trace.json.gz"},
		{"real-resnet", "resnet_gpu_param_torch2.1dev.json.gz"},
		{"real-a100", "ddp_a100_16gpu_inductor_cudagraph_torch2.1dev.json.gz"},
		{"real-nanoseconds", "v100_ns_resolution_absolute_ts_torch2.4dev.pt.trace.json.gz"},
	} {
		packed, err := os.ReadFile(sharedTraces + m.file)
		if err != nil {
			b.Log("no real traces here: ", err)
			return
		}
		n := int64(len(gziptest.Text(b, packed)))
		b.Run(m.short, func(b *testing.B) { bench(b, m.file, packed, n) })
	}
}

// BenchmarkImport converts a whole trace to events and drops them. The rates
// are about decompressed input: MB/s of wall time, and MB/cpu-s by the
// processor time of all goroutines and the garbage collector, which other
// programs on the machine do not disturb.
func BenchmarkImport(b *testing.B) {
	benchTraces(b, func(b *testing.B, name string, data []byte, size int64) {
		benchImport(b, name, data, size, func() (torch.Sink, func() error) {
			return &nullSink{}, func() error { return nil }
		})
	})
}

// BenchmarkImportToFile also encodes and compresses the events and writes them
// to a file, like the command.
func BenchmarkImportToFile(b *testing.B) {
	path := b.TempDir() + "/run.pfw.gz"
	benchTraces(b, func(b *testing.B, name string, data []byte, size int64) {
		benchImport(b, name, data, size, func() (torch.Sink, func() error) {
			w, err := dftracer.Create(path, &dftracer.Options{Level: 1})
			if err != nil {
				b.Fatal(err)
			}
			return w, w.Close
		})
	})
}

func benchImport(b *testing.B, name string, data []byte, size int64, open func() (torch.Sink, func() error)) {
	b.SetBytes(size)
	b.ReportAllocs()
	used := cpuTime()
	for b.Loop() {
		src := torch.Source{Name: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
		sink, end := open()
		_, err := torch.Import(b.Context(), sink, []torch.Source{src}, nil)
		if err := errors.Join(err, end()); err != nil {
			b.Fatal(err)
		}
	}
	if used = cpuTime() - used; used > 0 {
		b.ReportMetric(float64(size)*float64(b.N)/1e6/used.Seconds(), "MB/cpu-s")
	}
}
