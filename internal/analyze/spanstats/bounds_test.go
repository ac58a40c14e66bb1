package spanstats_test

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/spanstats"
	"github.com/trainspan/trainspan/internal/tracefile"
)

func complete(cat, name string, tid, ts, dur int64, args ...dftracer.Arg) *dftracer.Event {
	return &dftracer.Event{Phase: dftracer.PhaseComplete, Cat: cat, Name: name, PID: 9, TID: tid, TS: ts, Dur: dur, Args: args}
}

// TestSelfTimeWithLittleMemory has an epoch that ends long after its first
// steps were aggregated: the error from the memory limit must stay small, for
// any order of the trace.
func TestSelfTimeWithLittleMemory(t *testing.T) {
	const epochs, steps = 4, 20000
	for _, sorted := range []bool{false, true} {
		agg := spanstats.New(&spanstats.Options{MaxSpans: 512})
		ts := int64(1_000_000)
		for range epochs {
			start := ts
			if sorted {
				agg.Add(complete("pipeline", "epoch.block", 1, start, steps*100))
			}
			for range steps {
				agg.Add(complete("compute", "forward", 1, ts+10, 50))
				agg.Add(complete("pipeline", "train.iteration", 1, ts, 90))
				ts += 100
			}
			if !sorted {
				agg.Add(complete("pipeline", "epoch.block", 1, start, steps*100))
			}
			ts += 1000
		}
		want := map[string]int64{"forward": 50 * steps * epochs, "train.iteration": 40 * steps * epochs, "epoch.block": 10 * steps * epochs}
		for _, s := range agg.Result().Names {
			if off := math.Abs(float64(s.Self-want[s.Name])) / float64(want[s.Name]); off > 0.02 {
				t.Errorf("sorted %v: %s has self time %d, want %d", sorted, s.Name, s.Self, want[s.Name])
			}
		}
	}
}

func TestUnionWithLittleMemoryReportsItsError(t *testing.T) {
	agg := spanstats.New(&spanstats.Options{MaxIntervals: 600})
	rng := rand.New(rand.NewPCG(1, 2))
	var exact, ts int64 = 0, 1_000_000
	for range 50000 {
		d := 1 + rng.Int64N(100)
		agg.Add(complete("compute", "forward", 1, ts, d))
		exact += d
		ts += d + 1 + rng.Int64N(10)
	}
	r := agg.Result()
	got := r.Processes[0].Compute
	if r.UnionError == 0 {
		t.Fatal("the bound was not reached")
	}
	if got < exact || got-r.UnionError > exact {
		t.Errorf("union %d with error %d, want at most the error above %d", got, r.UnionError, exact)
	}
}

// TestUnionInAnyOrder checks that a union does not depend on the order of its
// intervals, also if there are more than the sort buffer holds.
func TestUnionInAnyOrder(t *testing.T) {
	const blocks, each = 4, 5000 // more than the sort buffer holds
	for name, order := range map[string][blocks]int64{"forward": {0, 1, 2, 3}, "backward": {3, 2, 1, 0}, "mixed": {2, 0, 3, 1}} {
		agg := spanstats.New(nil)
		for _, block := range order {
			for i := range int64(each) {
				at := 10 * (block*each + (i*7919)%each)
				agg.Add(complete("POSIX", "read", 1, at, 4))
				agg.Add(complete("POSIX", "write", 2, at+2, 4)) // together 6 of 10
			}
		}
		r := agg.Result()
		if p := &r.Processes[0]; p.IO != 6*blocks*each || p.Idle != 4*blocks*each-4 || r.UnionError != 0 {
			t.Errorf("%s: %+v, union error %d; want I/O %d, idle %d, error 0", name, p.Use, r.UnionError, 6*blocks*each, 4*blocks*each-4)
		}
	}
}

// TestSmallestGapsAreClosed checks that with limited memory only the smallest
// gaps are closed.
func TestSmallestGapsAreClosed(t *testing.T) {
	agg := spanstats.New(&spanstats.Options{MaxIntervals: 64 * 8})
	at := int64(1_000_000_000)
	for range 20 {
		for range 60 {
			agg.Add(complete("POSIX", "read", 1, at, 10))
			at += 11
		}
		at += 100_000
	}
	r := agg.Result()
	if p := &r.Processes[0]; r.UnionError > 20*60 || p.IO < 20*600 || p.IO > 20*660 || p.Idle < 19*100_000 {
		t.Errorf("%+v, union error %d; want at most 60 for each of 20 blocks", p.Use, r.UnionError)
	}
}

func TestManyNamesAreCountedTogether(t *testing.T) {
	agg := spanstats.New(&spanstats.Options{MaxNames: 10})
	for i := range int64(100) {
		agg.Add(complete("compute", "kernel"+strconv.FormatInt(i, 10), 1, i*10, 5))
	}
	r := agg.Result()
	if len(r.Names) != 11 {
		t.Fatalf("%d names, want 11", len(r.Names))
	}
	i := slices.IndexFunc(r.Names, func(s spanstats.NameStat) bool { return s.Name == spanstats.OtherNames })
	if i < 0 || r.Names[i].Count != 90 || r.Names[i].Self != 450 {
		t.Errorf("names %+v, want one with 90 spans and 450 µs for the rest", r.Names)
	}
}

// TestMemoryDoesNotGrow checks that ten times the events do not need more
// memory.
func TestMemoryDoesNotGrow(t *testing.T) {
	agg := spanstats.New(&spanstats.Options{MaxSpans: 2000, MaxIntervals: 10000})
	run := func(from, n int64) uint64 {
		for i := from; i < from+n; i++ {
			agg.Add(complete("compute", "forward", i%3, i*7, 5))
			agg.Add(complete("POSIX", "read", i%3, i*7, 6))
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	few := run(0, 30_000)
	many := run(30_000, 300_000)
	if many > few+1<<20 {
		t.Errorf("%d bytes after 60,000 events, %d after 660,000, want at most %d", few, many, few+1<<20)
	}
	if got := agg.Result().Events; got != 660_000 {
		t.Errorf("%d events, want 660,000", got)
	}
}

func TestAddDoesNotAllocate(t *testing.T) {
	agg := spanstats.New(nil)
	ev := complete("compute", "forward", 1, 0, 5, dftracer.Int("epoch", 1))
	next := func() { ev.TS += 5; agg.Add(ev) } // adjacent, so that the union does not grow
	for range 20000 {
		next()
	}
	if n := testing.AllocsPerRun(1000, next); n != 0 {
		t.Errorf("Add allocates %v times, want 0", n)
	}
}

func TestEpochs(t *testing.T) {
	epoch := func(n int64) dftracer.Arg { return dftracer.Int("epoch", n) }
	agg := spanstats.New(nil)
	agg.Add(&dftracer.Event{Phase: dftracer.PhaseMetadata, Name: tracefile.NameProcess, Cat: dftracer.CatDFTracer, PID: 9,
		Args: []dftracer.Arg{dftracer.String("name", "rank"), dftracer.String("value", "3")}})
	for n := range int64(2) {
		at := 1000 * (n + 1)
		agg.Add(complete("compute", "forward", 1, at+100, 300, epoch(n)))
		agg.Add(complete("POSIX", "read", 2, at+300, 300, epoch(n)))
		agg.Add(complete("comm", "all_reduce", 1, at+700, 100, epoch(n)))
		agg.Add(complete("pipeline", "train.iteration", 1, at+50, 900, epoch(n)))
		agg.Add(complete("dataloader", "prefetch", 2, at+990, 10, epoch(n+1)))
		agg.Add(complete("pipeline", "epoch.block", 1, at, 990, epoch(n)))
	}
	agg.Add(complete("compute", "forward", 1, 100, 10, epoch(-1)))
	r := agg.Result()
	if len(r.Epochs) != 2 {
		t.Fatalf("%d epochs, want 2: %+v", len(r.Epochs), r.Epochs)
	}
	want := spanstats.Use{Wall: 990, Compute: 300, IO: 300, IOStall: 200, Comm: 100, CommStall: 100, Idle: 390}
	for i, e := range r.Epochs {
		if e.Epoch != int64(i) || e.Rank != "3" || e.Steps != 1 || e.Use != want {
			t.Errorf("epoch %+v, want epoch %d of rank 3 with 1 step and %+v", e, i, want)
		}
	}
}

// TestEpochsWithoutNumbers checks that epochs without a number are numbered in
// their order, and that spans without an epoch belong to none.
func TestEpochsWithoutNumbers(t *testing.T) {
	agg := spanstats.New(nil)
	for n := range int64(3) {
		agg.Add(complete("pipeline", "epoch.block", 1, 1000*(n+1), 500+n))
		agg.Add(complete("compute", "forward", 2, 1000*(n+1), 100, dftracer.Int("batch", 7)))
	}
	r := agg.Result()
	for i, e := range r.Epochs {
		if n := int64(i); e.Epoch != n || e.Start != 1000*(n+1) || e.Wall != 500+n || e.Events != 1 || e.Compute != 100 {
			t.Errorf("epoch %+v, want epoch %d from %d, %d µs long, with 1 event, 100 µs of compute", e, n, 1000*(n+1), 500+n)
		}
	}
	if len(r.Epochs) != 3 {
		t.Errorf("%d epochs, want 3", len(r.Epochs))
	}
}

// TestEpochsBelowTheTraining checks that the scope around a training has the
// epoch with which it ends, which does not set the time of that epoch.
func TestEpochsBelowTheTraining(t *testing.T) {
	agg := spanstats.New(nil)
	for n := range int64(2) {
		agg.Add(complete("compute", "forward", 1, 1000*(n+1), 300, dftracer.Int("epoch", n)))
	}
	for _, whole := range []string{"train", "ai_root"} {
		cat := map[string]string{"train": "pipeline", "ai_root": "ai_root"}[whole]
		agg.Add(complete(cat, whole, 1, 0, 5000, dftracer.Int("epoch", 1)))
	}
	r := agg.Result()
	if len(r.Epochs) != 2 || r.Epochs[1].Start != 2000 || r.Epochs[1].End != 2300 {
		t.Errorf("epochs %+v, want two, the second from 2000 to 2300", r.Epochs)
	}
}

func TestEqualSpansNestByLevel(t *testing.T) {
	for _, levels := range [][2]int{{2, 1}, {1, 2}, {0, 0}} {
		agg := spanstats.New(nil)
		for i, name := range []string{"first", "second"} {
			ev := complete("mine", name, 1, 10, 50)
			ev.Level = levels[i]
			agg.Add(ev)
		}
		inner := "first" // written earlier, so it ended earlier
		if levels[1] > levels[0] {
			inner = "second"
		}
		for _, s := range agg.Result().Names {
			if want := map[bool]int64{true: 50}[s.Name == inner]; s.Self != want {
				t.Errorf("levels %v: %s has self %d, want %d", levels, s.Name, s.Self, want)
			}
		}
	}
}

// TestClasses checks that the class of a span follows from its meaning; lists
// of categories are exceptions.
func TestClasses(t *testing.T) {
	busy := func(c spanstats.Classes, category, name string) string {
		a := spanstats.New(&spanstats.Options{Classes: c})
		a.Add(&dftracer.Event{Phase: dftracer.PhaseComplete, Cat: category, Name: name, PID: 1, TID: 1, TS: 1000, Dur: 10})
		p := a.Result().Processes[0]
		for class, us := range map[string]int64{"compute": p.Compute, "io": p.IO, "comm": p.Comm, "copy": p.Copies} {
			if us > 0 {
				return class
			}
		}
		return ""
	}
	for _, c := range []struct {
		category, name, want string
		classes              spanstats.Classes
	}{
		{category: "compute", name: "forward", want: "compute"},
		{category: "COMPUTE", name: "anything", want: "compute"},
		{category: "POSIX", name: "read", want: "io"},
		{category: "dataloader", name: "fetch.iter", want: "io"},
		{category: "dataloader", name: "fetch.block"},
		{category: "checkpoint", name: "capture", want: "io"},
		{category: "comm", name: "all_reduce", want: "comm"},
		{category: "comm", name: "comm.init"},    // set-up before the training
		{category: "compute", name: "step.init"}, // the same
		{category: "device", name: "transfer", want: "copy"},
		{category: "device", name: "backward"}, // work, not a copy
		{category: "pipeline", name: "train"},
		{category: "PP", name: "aten::mm"},
		{category: "computer", name: "x"},
		{category: "storage2", name: "x", classes: spanstats.Classes{IO: []string{"storage*"}}, want: "io"},
		{category: "compute", name: "forward", classes: spanstats.Classes{Compute: []string{"PP"}}},
		{category: "PP", name: "aten::mm", classes: spanstats.Classes{Compute: []string{"pp"}}, want: "compute"},
		{category: "comm", name: "all_reduce", classes: spanstats.Classes{Compute: []string{"comm"}}, want: "compute"},
	} {
		if got := busy(c.classes, c.category, c.name); got != c.want {
			t.Errorf("%s/%s with %+v counts as %q, want %q", c.category, c.name, c.classes, got, c.want)
		}
	}
}
