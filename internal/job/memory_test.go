package job_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job"
)

// heapSink samples the heap at the first span.
type heapSink struct {
	t      *testing.T
	heap   uint64
	n      int
	before int64
}

func (s *heapSink) Span(sp *job.Span) {
	if s.n++; s.n == 1 {
		s.heap = heap()
	}
	if sp.Start < s.before || sp.Name != fmt.Sprintf("mine %d", (sp.ID-1)%10000) || sp.End != sp.Start+9e6 {
		s.t.Errorf("%+v after %d", sp, s.before)
	}
	s.before = sp.Start
}
func (s *heapSink) Event(*job.Event) {}
func (s *heapSink) Close() error     { return nil }

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// The spans of JSON lines are not held in memory, but are delivered by start.
func TestMemoryOfLines(t *testing.T) {
	const n = 120_000
	var text strings.Builder
	for i := range n {
		at := int64(base)/1000 + int64(i^1)*10 // neighbours are swapped
		fmt.Fprintf(&text, `{"type":"complete","id":"%016x","name":"training_single_iteration","attributes":{"current_iteration":%d,"duration_msec":9,"dftracer.name":"mine %d","dftracer.cat":"c"},"pid":3,"start_event":{"attributes":{"timestamp_msec":%d}},"stop_event":{"attributes":{"timestamp_msec":%d}}}`+"\n",
			i+1, i, i%10000, at, at+9)
	}
	paths := files(t, map[string]string{"a.jsonl": `{"type":"heartbeat","count":0}` + "\n" + text.String()})
	text.Reset()
	set, err := job.Open(paths)
	if err != nil {
		t.Fatal(err)
	}
	before := heap()
	var s *heapSink
	if _, err = set.Read(func(p *job.Process) job.Sink {
		s = &heapSink{t: t}
		return s
	}); err != nil {
		t.Fatal(err)
	}
	if s.n != n || s.heap > before+20<<20 {
		t.Errorf("%d spans, want %d; heap grew by %d MiB, want at most 20", s.n, n, (s.heap-before)>>20)
	}
	t.Logf("%d KiB", (s.heap-before)>>10)
}

// The events of a file come in order, however many processors parse it, because
// the order decides how spans with equal times nest.
func TestOrderOfEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.pfw.gz")
	w, err := dftracer.Create(path, &dftracer.Options{MemberSize: 4 << 10, Process: dftracer.Process{PID: 7, Host: "h"}})
	if err != nil {
		t.Fatal(err)
	}
	const n = 20_000
	for i := range uint64(n) {
		w.Write(&dftracer.Event{ID: 10 + i, Cat: "c", Name: "n", TID: 1, TS: 1_700_000_000_000_000, Dur: 9, Level: 1})
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	set, err := job.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	set.Workers = 4
	var ids []uint64
	set.Events = func(*job.Process) func(*dftracer.Event) {
		return func(ev *dftracer.Event) {
			if ev.Cat == "c" {
				ids = append(ids, ev.ID)
			}
		}
	}
	if _, err := set.Read(func(*job.Process) job.Sink { return nothing{} }); err != nil {
		t.Fatal(err)
	}
	if len(ids) != n || !slices.IsSorted(ids) {
		t.Errorf("%d events, in order: %v; want %d in order", len(ids), slices.IsSorted(ids), n)
	}
}
