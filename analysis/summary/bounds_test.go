package summary_test

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/trainspan/trainspan/analysis/summary"
	"github.com/trainspan/trainspan/dftracer"
)

func complete(cat, name string, tid, ts, dur int64, args ...dftracer.Arg) *dftracer.Event {
	return &dftracer.Event{Phase: dftracer.PhaseComplete, Cat: cat, Name: name, PID: 9, TID: tid, TS: ts, Dur: dur, Args: args}
}

// An epoch ends long after its first steps were folded away: what the memory
// bound costs must stay small, whichever order the trace has.
func TestSelfTimeWithLittleMemory(t *testing.T) {
	const epochs, steps = 4, 20000
	for _, sorted := range []bool{false, true} {
		agg := summary.New(&summary.Options{MaxSpans: 512})
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

func TestUnionWithLittleMemoryTellsItsError(t *testing.T) {
	agg := summary.New(&summary.Options{MaxIntervals: 600})
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
		t.Errorf("union %d with error %d, exactly %d", got, r.UnionError, exact)
	}
}

func TestManyNamesAreCountedTogether(t *testing.T) {
	agg := summary.New(&summary.Options{MaxNames: 10})
	for i := range int64(100) {
		agg.Add(complete("compute", "kernel"+strconv.FormatInt(i, 10), 1, i*10, 5))
	}
	r := agg.Result()
	if len(r.Names) != 11 {
		t.Fatalf("%d names", len(r.Names))
	}
	i := slices.IndexFunc(r.Names, func(s summary.NameStat) bool { return s.Name == summary.OtherNames })
	if i < 0 || r.Names[i].Count != 90 || r.Names[i].Self != 450 {
		t.Errorf("%+v", r.Names)
	}
}

// The whole point: ten times the events must not take more memory.
func TestMemoryDoesNotGrow(t *testing.T) {
	agg := summary.New(&summary.Options{MaxSpans: 2000, MaxIntervals: 10000})
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
		t.Errorf("%d bytes after 60,000 events, %d after 660,000", few, many)
	}
	if got := agg.Result().Events; got != 660_000 {
		t.Errorf("%d events", got)
	}
}

func TestAddDoesNotAllocate(t *testing.T) {
	agg := summary.New(nil)
	ev := complete("compute", "forward", 1, 0, 5, dftracer.Int("epoch", 1))
	next := func() { ev.TS += 5; agg.Add(ev) } // touching, so that the union does not grow
	for range 20000 {
		next()
	}
	if n := testing.AllocsPerRun(1000, next); n != 0 {
		t.Errorf("Add allocates %v times", n)
	}
}

func TestEpochs(t *testing.T) {
	epoch := func(n int64) dftracer.Arg { return dftracer.Int("epoch", n) }
	agg := summary.New(nil)
	agg.Add(&dftracer.Event{Phase: dftracer.PhaseMetadata, Name: dftracer.NameProcess, Cat: dftracer.CatDFTracer, PID: 9,
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
		t.Fatalf("%d epochs: %+v", len(r.Epochs), r.Epochs)
	}
	want := summary.Use{Wall: 990, Compute: 300, IO: 300, IOStall: 200, Comm: 100, CommStall: 100, Idle: 390}
	for i, e := range r.Epochs {
		if e.Epoch != int64(i) || e.Rank != "3" || e.Steps != 1 || e.Use != want {
			t.Errorf("%+v", e)
		}
	}
}

// The scope around a training has the epoch that it ends with. It says nothing
// of when that one was.
func TestEpochsBelowTheTraining(t *testing.T) {
	agg := summary.New(nil)
	for n := range int64(2) {
		agg.Add(complete("compute", "forward", 1, 1000*(n+1), 300, dftracer.Int("epoch", n)))
	}
	for _, whole := range []string{"train", "ai_root"} {
		cat := map[string]string{"train": "pipeline", "ai_root": "ai_root"}[whole]
		agg.Add(complete(cat, whole, 1, 0, 5000, dftracer.Int("epoch", 1)))
	}
	r := agg.Result()
	if len(r.Epochs) != 2 || r.Epochs[1].Start != 2000 || r.Epochs[1].End != 2300 {
		t.Errorf("epochs are %+v", r.Epochs)
	}
}

func TestEqualSpansNestByLevel(t *testing.T) {
	for _, levels := range [][2]int{{2, 1}, {1, 2}, {0, 0}} {
		agg := summary.New(nil)
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

func TestClasses(t *testing.T) {
	c := summary.DefaultClasses()
	for cat, want := range map[string]summary.Class{"compute": summary.Compute, "COMPUTE": summary.Compute, "POSIX": summary.IO, "posix_reader": summary.IO,
		"dataloader": summary.IO, "checkpoint": summary.IO, "comm": summary.Comm, "pipeline": summary.Other, "PP": summary.Other, "computer": summary.Other} {
		if got := c.Of(cat); got != want {
			t.Errorf("%s is of class %d, want %d", cat, got, want)
		}
	}
}
