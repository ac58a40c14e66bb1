package account_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/job"
)

// millionSpans returns the spans of 100,000 iterations in the order of a trace file,
// which is the order of their ends.
func millionSpans() []job.Span {
	const steps = 100_000
	out := make([]job.Span, 0, 10*steps+2)
	unknown := func(id, parent uint64, name string, from, to int64) job.Span {
		return job.Span{ID: id, Parent: parent, Name: name, Start: from, End: to, Step: job.Unknown, First: job.Unknown, Thread: 1}
	}
	at, id := int64(1e18), uint64(2)
	for i := range int64(steps) {
		step := id + 2
		out = append(out, unknown(id+1, 2, "data_loading", at, at+1000))
		at += 1000
		for k, name := range []string{"model_forward", "zero_grad", "model_backward", "all_reduce", "all_reduce", "all_reduce", "optimizer_update", "log"} {
			s := unknown(id+3+uint64(k), step, name, at+int64(k)*1000, at+int64(k+1)*1000)
			if name == "all_reduce" {
				s.Cat = "comm"
			}
			out = append(out, s)
		}
		s := unknown(step, 2, "training_single_iteration", at, at+8000)
		s.Step = i
		out = append(out, s)
		at, id = at+8000, id+12
	}
	loop := unknown(2, 1, "training_loop", 1e18, at)
	loop.First = 0
	return append(out, loop, unknown(1, 0, "application", 1e18, at))
}

// BenchmarkLedger adds a million spans to a ledger and makes one report.
func BenchmarkLedger(b *testing.B) {
	spans := millionSpans()
	for i := range spans {
		spans[i].SetName(spans[i].Cat, spans[i].Name)
	}
	b.ReportAllocs()
	for b.Loop() {
		builder := account.NewBuilder(account.Process{Attempt: 1, Start: 1e18, End: spans[len(spans)-1].End, LastSeen: spans[len(spans)-1].End})
		for i := range spans {
			builder.Span(&spans[i])
		}
		var l account.Ledger
		mustAdd(&l, builder)
		rep := l.Report(account.Query{})
		if rep.Categories[account.DataWait] != 1e8 || rep.Categories.Sum() != rep.Wall {
			b.Fatalf("categories %v, want 100 ms of data_wait and the sum of wall", rep.Categories)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(spans)), "ns/span")
}

// ranksOf writes the traces of a job: for each rank a file with steps
// iterations of twelve spans.
func ranksOf(b *testing.B, ranks, steps int) (dir string, events int) {
	dir = b.TempDir()
	for rank := range ranks {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("rank%d.pfw", rank)))
		if err != nil {
			b.Fatal(err)
		}
		text := bufio.NewWriterSize(f, 1<<20)
		line := func(id, parent, level int, cat, name string, ts, dur int64, more string) {
			events++
			fmt.Fprintf(text, `{"id":%d,"name":%q,"cat":%q,"pid":%d,"tid":1,"ts":%d,"dur":%d,"ph":"X","args":{"hhash":"h","level":%d,"p_idx":%d%s}}`+"\n",
				id, name, cat, 1000+rank, ts, dur, level, parent, more)
		}
		at := int64(1704067200000000)
		start := at
		line(1, -1, 1, "dftracer", "start", at, 0, fmt.Sprintf(`,"attempt":0,"rank":%d,"session_tag":"bench"`, rank))
		id := 4
		for i := range steps {
			line(id, 3, 3, "dataloader", "fetch.iter", at, 100, "")
			at += 100
			for k, s := range [...][2]string{{"compute", "forward"}, {"compute", "step.zero_grad"}, {"compute", "backward"}, {"comm", "all_reduce"},
				{"comm", "all_reduce"}, {"comm", "all_reduce"}, {"comm", "all_reduce"}, {"comm", "all_gather"}, {"compute", "step"}, {"device", "transfer"}} {
				line(id+2+k, id+1, 4, s[0], s[1], at+int64(k)*100, 100, fmt.Sprintf(`,"step":%d`, i))
			}
			line(id+1, 3, 3, "pipeline", "train.iteration", at, 1000, fmt.Sprintf(`,"step":%d`, i))
			at, id = at+1000, id+12
		}
		line(3, 2, 2, "pipeline", "train", start, at-start, `,"train_iterations_start":0`)
		line(2, -1, 1, "ai_root", "ai_root", start, at-start, "")
		if err := errors.Join(text.Flush(), f.Close()); err != nil {
			b.Fatal(err)
		}
	}
	return dir, events
}

// benchCollect reads a generated job. It reports the retained memory and the cost of
// the report.
func benchCollect(b *testing.B, ranks, steps int) {
	dir, events := ranksOf(b, ranks, steps)
	b.ResetTimer()
	var held uint64
	for range b.N {
		set, err := job.Open(dir)
		if err != nil {
			b.Fatal(err)
		}
		all, err := account.Collect(set)
		if err != nil {
			b.Fatal(err)
		}
		rep := all[0].Ledger.Report(account.Query{})
		if rep.Iterations.Kept != steps || len(rep.Ranks) != ranks {
			b.Fatalf("iterations %+v, want %d of %d ranks", rep.Iterations, steps, ranks)
		}
		b.StopTimer()
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		held = m.HeapAlloc
		runtime.KeepAlive(all)
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(events), "ns/event")
	b.ReportMetric(float64(held)/1e6, "MB-held")
	b.ReportMetric(float64(peakMemory())/1e6, "MB-peak")
}

// peakMemory returns the peak memory of the process, or 0 if the system does not
// provide it.
func peakMemory() int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			var kb int64
			_, _ = fmt.Sscan(rest, &kb)
			return kb * 1024
		}
	}
	return 0
}

// BenchmarkCollectRanks reads a job of many ranks: 64 x 1,000 x 12 events.
func BenchmarkCollectRanks(b *testing.B) { benchCollect(b, 64, 1000) }

// BenchmarkCollectThousand reads 1,024 x 1,000 x 12 events, three gigabytes of
// text. Run it with -benchtime 1x.
func BenchmarkCollectThousand(b *testing.B) {
	if os.Getenv("TRAINSPAN_LARGE") == "" {
		b.Skip("set TRAINSPAN_LARGE=1: needs 3 GB of disk")
	}
	benchCollect(b, 1024, 1000)
}

// BenchmarkCollectLong reads one process with 10 million events.
func BenchmarkCollectLong(b *testing.B) {
	if os.Getenv("TRAINSPAN_LARGE") == "" {
		b.Skip("set TRAINSPAN_LARGE=1: needs 2 GB of disk")
	}
	benchCollect(b, 1, 10_000_000/12)
}
