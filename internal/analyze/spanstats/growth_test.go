package spanstats_test

import (
	"strconv"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/spanstats"
	"github.com/trainspan/trainspan/internal/testkit/growth"
)

// many has the most expensive inputs, by what they have many of.
var many = map[string]func(n int){
	"Events": func(n int) {
		agg := spanstats.New(nil)
		for i := range int64(n) {
			agg.Add(complete("compute", "forward", 1, i*7, 5))
		}
		agg.Result()
	},
	"Depth": func(n int) { // sorted, the outer one first
		agg := spanstats.New(nil)
		for i := range int64(n) {
			agg.Add(complete("compute", "forward", 1, i, 2*int64(n)-2*i))
		}
		agg.Result()
	},
	"DepthEnds": func(n int) { // in the order of programs, the inner one first
		agg := spanstats.New(nil)
		for i := range int64(n) {
			agg.Add(complete("compute", "forward", 1, int64(n)-i, 2*i+1))
		}
		agg.Result()
	},
	"Equal": func(n int) {
		agg := spanstats.New(nil)
		for range n {
			agg.Add(complete("compute", "forward", 1, 1000, 5))
		}
		agg.Result()
	},
	"Overlapping": func(n int) {
		agg := spanstats.New(nil)
		for i := range int64(n) {
			agg.Add(complete("compute", "forward", 1, i, int64(n)))
		}
		agg.Result()
	},
	"Names": func(n int) {
		agg := spanstats.New(nil)
		for i := range int64(n) {
			agg.Add(complete("compute", "kernel"+strconv.FormatInt(i, 10), 1, i*7, 5))
		}
		agg.Result()
	},
	"Lanes": func(n int) {
		agg := spanstats.New(nil)
		for i := range int64(n) {
			agg.Add(complete("compute", "forward", i, i*7, 5))
		}
		agg.Result()
	},
	"Processes": func(n int) {
		agg := spanstats.New(nil)
		for i := range int64(n) {
			ev := complete("compute", "forward", 1, i*7, 5)
			ev.PID = i
			agg.Add(ev)
		}
		agg.Result()
	},
	"Files": func(n int) {
		agg := spanstats.New(nil)
		for i := range int64(n) {
			agg.NextFile(nil)
			for k := range int64(20) {
				ev := complete("compute", "forward", 1, k*7, 5)
				ev.PID = i
				agg.Add(ev)
			}
		}
		agg.Result()
	},
}

// TestTooDeep checks that spans nested too deeply for a lane are counted, and
// take no memory.
func TestTooDeep(t *testing.T) {
	for name, order := range map[string]func(i, n int64) int64{"outer first": func(i, _ int64) int64 { return i }, "inner first": func(i, n int64) int64 { return n - 1 - i }} {
		const n = 40_000
		agg := spanstats.New(nil)
		for i := range int64(n) {
			at := order(i, n)
			agg.Add(complete("compute", "level"+strconv.FormatInt(at/10_000, 10), 1, at, 2*n-2*at))
		}
		r := agg.Result()
		if r.TooDeep == 0 || r.TooDeep > n-4096 {
			t.Errorf("%s: %d spans are too deep, want 1 to %d", name, r.TooDeep, n-4096)
		}
		for _, s := range r.Names {
			if s.Count != 10_000 || s.Self > s.Total || s.Name == "level0" && s.Self == s.Total {
				t.Errorf("%s: %+v, want 10000 spans, with self below total at level 0", name, s)
			}
		}
	}
}

// TestManyFiles checks that the result for each rank of a job in many files is
// as exact as that of a job in one file, and so is that of a process with a
// rotated trace.
func TestManyFiles(t *testing.T) {
	const files, steps = 400, 500
	agg := spanstats.New(&spanstats.Options{MaxIntervals: 20_000, MaxSpans: 20_000})
	for pid := range int64(files) {
		agg.NextFile(nil)
		for i := range int64(steps) {
			ev := complete("compute", "forward", 1, 1000+i*100, 60)
			ev.PID = pid
			agg.Add(ev)
			ev = complete("POSIX", "read", 2, 1000+i*100+50, 30)
			ev.PID = pid
			agg.Add(ev)
		}
	}
	r := agg.Result()
	if r.UnionError != 0 || len(r.Processes) != files {
		t.Errorf("%d processes, union error %d; want %d and 0", len(r.Processes), r.UnionError, files)
	}
	for _, p := range r.Processes {
		if p.Compute != 60*steps || p.IO != 30*steps || p.IOStall != 20*steps {
			t.Fatalf("process %+v, want %d of compute, %d of I/O, %d of them stalled", p, 60*steps, 30*steps, 20*steps)
		}
	}
	agg = spanstats.New(nil)
	for part := range int64(4) {
		agg.NextFile(nil)
		for i := range int64(steps) {
			agg.Add(complete("compute", "forward", 1, (part*steps+i)*100, 60))
		}
	}
	agg.Add(complete("pipeline", "train", 1, 0, 4*steps*100))
	r = agg.Result()
	if p := r.Processes[0]; p.Compute != 4*60*steps || p.Lanes != 1 || r.UnionError != 0 {
		t.Errorf("%+v, union error %d; want one lane, %d ns of compute, error 0", p, r.UnionError, 4*60*steps)
	}
	for _, s := range r.Names {
		if want := map[string]int64{"forward": 4 * 60 * steps, "train": 4 * 40 * steps}[s.Name]; s.Self != want {
			t.Errorf("%s has self time %d, want %d", s.Name, s.Self, want)
		}
	}
}

func TestGrowth(t *testing.T) {
	for name, f := range many {
		t.Run(name, func(t *testing.T) { growth.Allocated(t, 2000, f) })
	}
}

func BenchmarkGrowth(b *testing.B) {
	for name, f := range many {
		n := 1 << 14
		if name == "Files" {
			n = 1 << 10
		}
		if name != "Lanes" { // the map exceeds the CPU caches: 39 times as long
			b.Run(name, func(b *testing.B) { growth.Bench(b, n, f) })
		}
	}
}
