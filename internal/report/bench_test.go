package report_test

import (
	"io"
	"runtime"
	"testing"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/report"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// benchReport reads a generated job from its files and builds the full report.
func benchReport(b *testing.B, dir string) {
	var spans, held uint64
	var size int
	for b.Loop() {
		set, err := job.Open(dir)
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
		if err := report.HTML(n, r, ""); err != nil {
			b.Fatal(err)
		}
		if err := report.Text(io.Discard, r); err != nil {
			b.Fatal(err)
		}
		if size = n.n; size > 1<<20 {
			b.Fatalf("the page has %d bytes, want at most 1 MiB", size)
		}
		runtime.KeepAlive(jobs)
	}
	b.ReportMetric(float64(held)/1e6, "MB-held")
	b.ReportMetric(float64(size)/1e3, "kB-page")
	b.ReportMetric(float64(spans)*float64(b.N)/b.Elapsed().Seconds(), "spans/s")
}

type counter struct{ n int }

func (c *counter) Write(p []byte) (int, error) { c.n += len(p); return len(p), nil }

// benchLarge uses the job that test/bench/cmd/scale measures.
func benchLarge(b *testing.B, ranks int) {
	dir := b.TempDir()
	if err := (simjob.Large{Ranks: ranks, Steps: 1000, Slow: ranks * 2 / 3, Extra: 12, Save: 200}).Write(dir); err != nil {
		b.Fatal(err)
	}
	benchReport(b, dir)
}

func BenchmarkReport256Ranks(b *testing.B) { benchLarge(b, 256) }

func BenchmarkReport1024Ranks(b *testing.B) { benchLarge(b, 1024) }

func BenchmarkReport100kSteps(b *testing.B) {
	dir := b.TempDir()
	write(b, dir, simjob.Attempt{Ranks: 8, Steps: 100_000, Slow: 3, Extra: [4]float64{12}, Save: 1000})
	benchReport(b, dir)
}
