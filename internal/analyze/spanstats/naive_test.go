package spanstats_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/spanstats"
)

// forest makes spans that nest on each lane, in the order of their ends.
type forest struct {
	rng    *rand.Rand
	events []dftracer.Event
	names  [][2]string
}

func (f *forest) fill(pid, tid, from, to int64, level int) {
	for at := from; at < to; {
		at += f.rng.Int64N(20)
		end := min(at+f.rng.Int64N(200), to)
		if at >= end {
			return
		}
		if level < 5 && f.rng.IntN(3) > 0 {
			f.fill(pid, tid, at, end, level+1)
		}
		n := f.names[f.rng.IntN(len(f.names))]
		f.events = append(f.events, dftracer.Event{Phase: dftracer.PhaseComplete, Cat: n[0], Name: n[1], PID: pid, TID: tid, TS: at, Dur: end - at, Level: level})
		at = end
	}
}

func randomTrace(seed uint64) []dftracer.Event {
	f := &forest{rng: rand.New(rand.NewPCG(seed, 7)), names: [][2]string{{"compute", "forward"}, {"compute", "backward"},
		{"POSIX", "read"}, {"STDIO", "fread"}, {"comm", "all_reduce"}, {"pipeline", "train"}, {"mine", "work"}}}
	for pid := int64(1); pid <= 2; pid++ {
		for tid := range int64(3) {
			f.fill(pid, tid, 1000, 1000+3000, 1)
		}
	}
	return f.events
}

// naive computes the same as the Aggregator without a memory limit.
type naive struct {
	total, self map[[2]string]int64
	durs        map[[2]string][]int64
	masks       map[int64][]int // by pid and microsecond
}

func reference(events []dftracer.Event) *naive {
	n := &naive{map[[2]string]int64{}, map[[2]string]int64{}, map[[2]string][]int64{}, map[int64][]int{}}
	bits := map[string]int{"compute": 1, "POSIX": 2, "STDIO": 2, "comm": 4}
	for i := range events {
		ev := &events[i]
		key := [2]string{ev.Cat, ev.Name}
		n.total[key] += ev.Dur
		n.durs[key] = append(n.durs[key], ev.Dur)
		if n.masks[ev.PID] == nil {
			n.masks[ev.PID] = make([]int, 5000)
		}
		for t := ev.TS; t < ev.End(); t++ {
			n.masks[ev.PID][t] |= bits[ev.Cat]
		}
		// Every microsecond belongs to the innermost span.
		n.self[key] += ev.Dur
		var parent *dftracer.Event
		for j := range events {
			p := &events[j]
			if j != i && p.PID == ev.PID && p.TID == ev.TID && p.Level == ev.Level-1 && p.TS <= ev.TS && p.End() >= ev.End() {
				parent = p
			}
		}
		if parent != nil {
			n.self[[2]string{parent.Cat, parent.Name}] -= ev.Dur
		}
	}
	return n
}

func (n *naive) use(pid, from, to int64) spanstats.Use {
	u := spanstats.Use{Wall: to - from}
	for _, mask := range n.masks[pid][from:to] {
		add := func(to *int64, yes bool) {
			if yes {
				*to++
			}
		}
		add(&u.Compute, mask&1 != 0)
		add(&u.IO, mask&2 != 0)
		add(&u.IOStall, mask&3 == 2)
		add(&u.Comm, mask&4 != 0)
		add(&u.CommStall, mask&5 == 4)
		add(&u.Idle, mask == 0)
	}
	return u
}

func TestAggregatorAgreesWithNaiveReference(t *testing.T) {
	orders := map[string]func([]dftracer.Event, uint64){
		"as they end": func([]dftracer.Event, uint64) {},
		"as they start": func(events []dftracer.Event, _ uint64) {
			slices.SortStableFunc(events, func(a, b dftracer.Event) int {
				if a.TS != b.TS {
					return int(a.TS - b.TS)
				}
				if a.Dur != b.Dur {
					return int(b.Dur - a.Dur)
				}
				return a.Level - b.Level
			})
		},
		"shuffled": func(events []dftracer.Event, seed uint64) {
			rand.New(rand.NewPCG(seed, 1)).Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		},
	}
	for name, order := range orders {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20) {
				events := randomTrace(seed)
				want := reference(events)
				order(events, seed)
				agg := spanstats.New(nil)
				for i := range events {
					agg.Add(&events[i])
				}
				compare(t, agg.Result(), want, len(events))
			}
		})
	}
}

func compare(t *testing.T, got *spanstats.Result, want *naive, events int) {
	t.Helper()
	if got.Events != int64(events) || len(got.Names) != len(want.total) || got.UnionError != 0 {
		t.Fatalf("%d events, %d names, union error %d; want %d, %d, 0", got.Events, len(got.Names), got.UnionError, events, len(want.total))
	}
	byCategory, durations := map[string]int64{}, map[string][]int64{}
	for _, s := range got.Names {
		key := [2]string{s.Category, s.Name}
		durs := want.durs[key]
		slices.Sort(durs)
		if s.Count != int64(len(durs)) || s.Total != want.total[key] || s.Self != want.self[key] || s.Max != durs[len(durs)-1] {
			t.Errorf("%v: %+v, want total %d self %d", key, s, want.total[key], want.self[key])
		}
		if mean := float64(s.Total) / float64(len(durs)); s.Mean != mean {
			t.Errorf("%v: mean %v, want %v", key, s.Mean, mean)
		}
		for _, q := range []struct {
			q   float64
			got int64
		}{{0.5, s.P50}, {0.99, s.P99}} {
			exact := durs[int(math.Ceil(q.q*float64(len(durs))))-1]
			if math.Abs(float64(q.got-exact)) > 0.016*float64(exact) {
				t.Errorf("%v: p%v is %d, want %d", key, 100*q.q, q.got, exact)
			}
		}
		byCategory[s.Category] += s.Self
		durations[s.Category] = append(durations[s.Category], durs...)
	}
	for _, c := range got.Categories {
		if c.Self != byCategory[c.Category] {
			t.Errorf("category %s has self %d, want %d as the sum of its names", c.Category, c.Self, byCategory[c.Category])
		}
		durs := durations[c.Category]
		slices.Sort(durs)
		total := int64(0)
		for _, d := range durs {
			total += d
		}
		exact := durs[int(math.Ceil(0.5*float64(len(durs))))-1]
		if c.Count != int64(len(durs)) || c.Total != total || c.Max != durs[len(durs)-1] || math.Abs(float64(c.P50-exact)) > 0.016*float64(exact) {
			t.Errorf("category %+v, want %d of %d, half of them up to %d", c, len(durs), total, exact)
		}
	}
	start, end := int64(math.MaxInt64), int64(0)
	for _, p := range got.Processes {
		start, end = min(start, p.Start), max(end, p.End)
	}
	if got.Start != start || got.End != end {
		t.Errorf("result is from %d to %d, want %d to %d as the processes", got.Start, got.End, start, end)
	}
	for _, p := range got.Processes {
		if use := want.use(p.PID, p.Start, p.End); p.Use != use {
			t.Errorf("pid %d: %+v, want %+v", p.PID, p.Use, use)
		}
	}
}
