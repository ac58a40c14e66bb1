package torch_test

import (
	"io"
	"runtime"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/torch"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// peakSink samples the heap while events come in.
type peakSink struct {
	n    int
	peak uint64
}

func (s *peakSink) Write(*dftracer.Event) {
	if s.n++; s.n%20_000 == 0 {
		s.look()
	}
}

func (s *peakSink) look() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.peak = max(s.peak, m.HeapInuse)
}

// watchedReader samples the heap while the file is read.
type watchedReader struct {
	io.Reader
	sink *peakSink
	n    int
}

func (r *watchedReader) Read(p []byte) (int, error) {
	if r.n++; r.n%64 == 0 {
		r.sink.look()
	}
	return r.Reader.Read(p)
}

func importStream(t *testing.T, n int) (peak uint64, events int, rep *torch.Report) {
	t.Helper()
	runtime.GC()
	sink := &peakSink{}
	src := torch.Source{Name: "big.json", Open: func() (io.ReadCloser, error) {
		pr, pw := io.Pipe()
		go func() {
			simjob.WriteProfile(pw, n, 0)
			pw.Close()
		}()
		return struct {
			io.Reader
			io.Closer
		}{&watchedReader{Reader: pr, sink: sink}, pr}, nil
	}}
	rep, err := torch.Import(t.Context(), sink, []torch.Source{src}, &torch.Options{Memory: 8 << 20, TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return sink.peak, sink.n, rep
}

// The generated stream is eight times as long the second time; the heap must
// stay below a bound that the rows of the long one would exceed.
func TestMemoryDoesNotGrowWithTheFile(t *testing.T) {
	if testing.Short() {
		t.Skip("a long stream")
	}
	const n = 16_000 / raceSlow
	small, _, _ := importStream(t, n)
	large, events, rep := importStream(t, 8*n)
	f := rep.Files[0]
	if f.Events != 8*n*3+8*n/1000 || events < 8*n*3 || f.DeviceUnlinked != 0 || f.Bytes < 100<<20/raceSlow {
		t.Fatalf("%d events read from %d bytes, %d written, %d unlinked; want %d read, none unlinked", f.Events, f.Bytes, events, f.DeviceUnlinked, 8*n*3+8*n/1000)
	}
	if f.SpilledBytes == 0 {
		t.Fatal("nothing was spilled: the stream is too short for this test")
	}
	t.Logf("peak heap %d MiB for %d rows, %d MiB for %d (%d MiB read)", small>>20, 3*n, large>>20, 24*n, f.Bytes>>20)
	if bound := small + 24<<20; large > bound {
		t.Errorf("peak heap %d bytes, want at most 24 MiB above the %d with an eighth of the file", large, small)
	}
	// Every kernel still finds its operator across the spilled runs.
	if f.Device.Microseconds() != int64(8*n)*20001/1000 {
		t.Errorf("device time %s, want %d µs", f.Device, int64(8*n)*20001/1000)
	}
}
