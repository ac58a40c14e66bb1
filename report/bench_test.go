package report_test

import (
	"io"
	"runtime"
	"testing"

	"github.com/trainspan/trainspan/internal/jobgen"
	"github.com/trainspan/trainspan/internal/run"
	"github.com/trainspan/trainspan/report"
)

// benchReport reads a made-up job from its files, and reports all of it.
func benchReport(b *testing.B, a jobgen.Attempt) {
	dir := b.TempDir()
	write(b, dir, a)
	var spans, held uint64
	var size int
	for b.Loop() {
		set, err := run.Open(dir)
		if err != nil {
			b.Fatal(err)
		}
		jobs, err := report.Read(set)
		if err != nil {
			b.Fatal(err)
		}
		r := report.Build(jobs[0])
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		held, spans = m.HeapAlloc, uint64(r.Quality.Spans)
		n := &counter{}
		if err := report.HTML(n, r); err != nil {
			b.Fatal(err)
		}
		if err := report.Text(io.Discard, r); err != nil {
			b.Fatal(err)
		}
		if size = n.n; size > 1<<20 {
			b.Fatalf("the page has %d bytes", size)
		}
		runtime.KeepAlive(jobs)
	}
	b.ReportMetric(float64(held)/1e6, "MB-held")
	b.ReportMetric(float64(size)/1e3, "kB-page")
	b.ReportMetric(float64(spans)*float64(b.N)/b.Elapsed().Seconds(), "spans/s")
}

type counter struct{ n int }

func (c *counter) Write(p []byte) (int, error) { c.n += len(p); return len(p), nil }

func BenchmarkReport1024Ranks(b *testing.B) {
	benchReport(b, jobgen.Attempt{Ranks: 1024, Steps: 1000, Plain: true, Slow: 700, Extra: [4]float64{12}, Save: 200})
}

func BenchmarkReport100kSteps(b *testing.B) {
	benchReport(b, jobgen.Attempt{Ranks: 8, Steps: 100_000, Slow: 3, Extra: [4]float64{12}, Save: 1000})
}
