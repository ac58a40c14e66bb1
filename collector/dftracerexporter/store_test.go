package dftracerexporter

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/dftracer/dftest"
)

// only is the one open trace.
func (r *harness) only() *trace {
	r.t.Helper()
	for _, t := range r.inner.store.traces {
		return t
	}
	r.t.Fatal("no trace is open")
	return nil
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestIdleFileIsCompleted(t *testing.T) {
	r := start(t, func(c *Config) { c.IdleTimeout = 90 * time.Minute })
	r.send(batch(42, iteration(10, 2, 20)...))
	r.inner.store.tick(time.Now().Add(80 * time.Minute))
	if len(r.inner.store.traces) != 1 {
		t.Fatal("the file is completed too early")
	}
	r.inner.store.tick(time.Now().Add(100 * time.Minute))
	if len(r.inner.store.traces) != 0 {
		t.Fatal("the file is still open")
	}
	dftest.Check(t, r.files()[0])
	wantParent(t, named(t, r.files()[0]), "train.iteration", "unfinished")
	// The process goes on: nothing is overwritten.
	r.send(batch(42, testSpan{id: 2, name: "training_loop", start: 10, end: 9000}))
	r.stop()
	files := r.files()
	if len(files) != 2 || !strings.HasSuffix(files[0], "trace-3-node7-42.1.pfw.gz") {
		t.Fatalf("files are %v", files)
	}
	dftest.Check(t, files[0])
	ev := named(t, files[0])
	if ev["train"] == nil || ev["CM:trace.part"] == nil {
		t.Error("the second file has no span or does not say that it is one")
	}
}

func TestTooManyFiles(t *testing.T) {
	r := start(t, func(c *Config) { c.MaxOpenFiles = 3 })
	now := time.Now()
	r.inner.now = func() time.Time { now = now.Add(time.Second); return now }
	for pid := 1; pid <= 10; pid++ {
		r.send(batch(pid, testSpan{id: byte(pid), name: "application", end: 10}))
		r.send(batch(1, testSpan{id: byte(100 + pid), name: "keepalive", start: int64(pid), end: int64(pid)}))
		if n := len(r.inner.store.traces); n > 3 {
			t.Fatalf("%d files are open", n)
		}
	}
	r.stop()
	if n := len(r.files()); n != 10 {
		t.Errorf("%d files, want one per process and none twice", n)
	}
	for _, f := range r.files() {
		dftest.Check(t, f)
	}
	if open := r.counter("otelcol_dftracer_open_files"); open != 0 {
		t.Errorf("%d files are counted as open", open)
	}
}

func TestRotation(t *testing.T) {
	r := start(t, func(c *Config) {
		c.RotateSize, c.MemberSize, c.CompressionLevel = 2_000, 4_000, 1
		c.OrderWindow = 0
	})
	for i := range 200 {
		r.send(batch(42, testSpan{id: byte(i%250 + 1), name: "custom" + strings.Repeat("x", i%5), start: int64(10 * i), end: int64(10*i + 5)}))
	}
	r.stop()
	files := r.files()
	if len(files) < 2 {
		t.Fatalf("files are %v", files)
	}
	var n int
	for _, f := range files {
		report := dftest.Check(t, f)
		n += report.Events - 2
	}
	if n != 200 {
		t.Errorf("%d events in %d files, want 200", n, len(files))
	}
}

// node is a span of a random job.
type node struct {
	index, parent int
	start, end    int64
	open          bool // outlives the job
}

// grow makes spans that nest, some beside each other, in the order of their ends.
func grow(r *rand.Rand, count int) []node {
	list := []node{{0, -1, 0, 1_000_000_000, false}}
	for len(list) < count {
		p := list[r.IntN(len(list))]
		if p.end-p.start < 10 {
			continue
		}
		a := p.start + r.Int64N(p.end-p.start)
		b := a + r.Int64N(p.end-a+1)
		list = append(list, node{len(list), p.index, a, b, false})
	}
	slices.SortStableFunc(list, func(a, b node) int {
		if a.end != b.end {
			return int(a.end - b.end)
		}
		return b.index - a.index
	})
	return list
}

// However batches come, every span is in the file once, below its own parent,
// and the trace is flawless: no lane has spans that overlap partially.
func TestAnyOrder(t *testing.T) {
	orders := map[string]func(*rand.Rand, []node){
		"ends": func(*rand.Rand, []node) {},
		"jitter": func(r *rand.Rand, l []node) {
			for i := range l {
				if j := min(i+r.IntN(20), len(l)-1); j > i {
					l[i], l[j] = l[j], l[i]
				}
			}
		},
		"shuffled": func(r *rand.Rand, l []node) { r.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] }) },
		"reversed": func(_ *rand.Rand, l []node) { slices.Reverse(l) },
	}
	for name, mix := range orders {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(5) {
				rnd := rand.New(rand.NewPCG(seed, 7))
				list := grow(rnd, 600)
				mix(rnd, list)
				r := start(t, func(c *Config) { c.MaxWaitingSpans = 50 })
				for from := 0; from < len(list); {
					n := 1 + rnd.IntN(30)
					r.send(nodes(list[from:min(from+n, len(list))]))
					from += n
					if rnd.IntN(3) == 0 {
						r.settle()
					}
				}
				r.stop()
				report := dftest.Check(t, r.files()[0])
				if report.Events != len(list)+2 {
					t.Errorf("%d events, want %d", report.Events, len(list)+2)
				}
				checkParents(t, r.files()[0], list)
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
				t.Logf("%d lanes", report.Lanes)
			}
		})
	}
}

func nodes(list []node) ptrace.Traces {
	td := batch(42)
	spans := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	for _, n := range list {
		s := spans.AppendEmpty()
		s.SetTraceID(traceID())
		s.SetSpanID(wideID(n.index))
		if n.parent >= 0 {
			s.SetParentSpanID(wideID(n.parent))
		}
		s.SetName("n")
		s.SetStartTimestamp(at(n.start))
		s.SetEndTimestamp(at(n.end))
		s.Attributes().PutInt("index", int64(n.index))
	}
	return td
}

func checkParents(t *testing.T, path string, list []node) {
	t.Helper()
	ids := make(map[uint64]int64)
	parents := make(map[int64]int64)
	for _, ev := range dftest.Events(t, path) {
		if a, ok := ev.Arg("index"); ok {
			ids[ev.ID] = a.Int64()
			parents[a.Int64()] = ev.Parent
		}
	}
	for _, n := range list {
		got := int64(-1)
		if p := parents[int64(n.index)]; p != dftracer.NoParent {
			var ok bool
			if got, ok = ids[uint64(p)]; !ok {
				t.Errorf("span %d has the unknown parent %d", n.index, p)
			}
		}
		if got != int64(n.parent) {
			t.Errorf("span %d is below %d, want %d", n.index, got, n.parent)
		}
	}
}

// A loop of a million iterations is open all the time: memory and lanes stay
// what they are.
func TestLongLoopStaysSmall(t *testing.T) {
	r := start(t, func(c *Config) { c.MaxParents = 500 })
	const rounds = 400
	var last int64
	for i := range rounds {
		var list []node
		for j := range 10 {
			first, begin := 10+(i*10+j)*2, int64(20+(i*10+j)*100)
			list = append(list, node{first, first + 1, begin + 1, begin + 50, false}, node{first + 1, 2, begin, begin + 90, false})
			last = begin + 90
		}
		if i%20 == 19 { // a validation that is open over several batches
			v := 1_000_000 + i
			for k := range 3 {
				list = append(list, node{v*10 + k, v, last + int64(k), last + int64(k) + 1, false})
			}
			r.send(nodes(list))
			r.settle()
			list = []node{{v, 2, last, last + 5, false}}
		}
		r.send(nodes(list))
		r.settle()
	}
	tr := r.only()
	if n := len(tr.family.known); n > 1001 {
		t.Errorf("%d spans are remembered", n)
	}
	if n := len(tr.waiting) + len(tr.below) + len(tr.queue); n != 0 || tr.bytes != 0 {
		t.Errorf("%d spans and %d bytes wait", n, tr.bytes)
	}
	for i, l := range tr.lanes.all {
		if len(l.runs) > maxRuns {
			t.Errorf("lane %d has %d runs", i, len(l.runs))
		}
	}
	r.send(nodes([]node{{2, -1, 0, last + 10, false}}))
	r.stop()
	report := dftest.Check(t, r.files()[0])
	if report.Lanes > 3 {
		t.Errorf("%d lanes", report.Lanes)
	}
}

func TestForgottenParents(t *testing.T) {
	r := start(t, func(c *Config) { c.MaxParents = 5 })
	var list []node
	for i := range 50 {
		list = append(list, node{100 + i, 1000 + i, int64(10 * i), int64(10*i + 5), false})
		r.send(nodes(list[i:]))
		r.settle()
	}
	r.stop()
	report := dftest.Check(t, r.files()[0])
	if report.Counts["otel/unfinished/X"] != 50 {
		t.Errorf("counts are %v", report.Counts)
	}
}

func TestCircles(t *testing.T) {
	r := start(t, nil)
	r.send(nodes([]node{{1, 2, 0, 9, false}, {2, 3, 0, 9, false}, {3, 1, 0, 9, false}, {4, 4, 0, 9, false}, {5, 1, 1, 2, false}}))
	r.send(nodes([]node{{6, 7, 0, 9, false}}))
	r.settle()
	r.send(nodes([]node{{7, 6, 0, 9, false}}))
	_, report := r.finished()
	if report.Counts["torch/n/X"] != 7 {
		t.Errorf("counts are %v", report.Counts)
	}
}

func TestManySenders(t *testing.T) {
	r := start(t, func(c *Config) { c.MaxOpenFiles, c.OrderWindow = 4, 0 })
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				td := batch(100+(g+i)%6, testSpan{id: byte(i + 1), name: "application", start: int64(i * 10), end: int64(i*10 + 5)})
				td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).SetSpanID(wideID(g*1000 + i))
				if err := r.traces.ConsumeTraces(context.Background(), td); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	r.stop()
	var n int
	for _, f := range r.files() {
		n += dftest.Check(t, f).Counts["ai_root/ai_root/X"]
	}
	if n != 400 {
		t.Errorf("%d spans in %d files, want 400", n, len(r.files()))
	}
}

func TestWindowWritesByItself(t *testing.T) {
	r := start(t, func(c *Config) { c.OrderWindow, c.FlushInterval = 20*time.Millisecond, 10*time.Millisecond })
	r.send(batch(42, testSpan{id: 1, name: "application", end: 10}))
	for range 500 {
		if report, err := dftracer.ValidateFile(r.files()[0], &dftracer.ValidateOptions{AllowUnfinished: true}); err == nil && report.Counts["ai_root/ai_root/X"] == 1 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the span is not in the file")
}

func TestFilesAreReadableOnTheirOwn(t *testing.T) {
	r := start(t, func(c *Config) { c.FileName = "{service}/trace-{rank}.pfw" })
	r.send(batch(42, testSpan{id: 1, name: "application", end: 10}))
	r.stop()
	b, err := os.ReadFile(filepath.Join(r.dir, "charlm", "trace-3.pfw"))
	if err != nil || !strings.HasPrefix(string(b), "[\n{") || !strings.HasSuffix(string(b), "\n]") {
		t.Errorf("the file is %.60q, %v", b, err)
	}
}

// What the Collector has written when it is killed becomes a whole trace.
func TestCollectorIsKilled(t *testing.T) {
	r := start(t, nil)
	for i := range 20 {
		r.send(batch(42, iteration(byte(10+4*i), 2, int64(20+200*i))...))
		r.settle()
	}
	late := testSpan{id: 200, parent: 2, name: "data_loader_initialization", start: 5, end: 15}
	r.send(batch(42, late))
	r.settle()
	if err := r.only().w.Flush(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "copy.pfw.gz")
	copyFile(t, r.files()[0], path)
	if _, err := dftracer.Recover(path, nil); err != nil {
		t.Fatal(err)
	}
	report := dftest.Check(t, path)
	if report.Orphans != 0 || report.Events != 20*4+1+2+1 {
		t.Errorf("%d orphans, %d events", report.Orphans, report.Events)
	}
	wantParent(t, named(t, path), "train.iteration", "unfinished")
	wantParent(t, named(t, path), "dataloader.init", "unfinished")
}
