package job

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/testkit/growth"
)

// plainly is a simple number that compares each process with all others.
func plainly(procs []*Process) {
	last := make(map[int]*Process)
	note := func(p *Process) {
		if before := last[p.Rank]; before == nil || p.LastSeen > before.LastSeen {
			last[p.Rank] = p
		}
	}
	recorded := make([]int, len(procs))
	for i, p := range procs {
		if !p.RankKnown {
			p.Rank = 0
			for last[p.Rank] != nil && last[p.Rank].LastSeen > p.Start {
				p.Rank++
			}
		}
		if p.AttemptKnown {
			recorded[i] = p.Attempt
		}
		note(p)
	}
	for trusted := true; ; trusted = false {
		clear(last)
		wrong := false
		for i, p := range procs {
			others := 0
			for _, o := range procs[:i] {
				if o.LastSeen > p.Start {
					others = max(others, o.Attempt)
				}
			}
			before := last[p.Rank]
			wrong = wrong || before != nil && recorded[i] > 0 && recorded[i] <= before.Attempt && p.Start >= before.LastSeen
			p.AttemptKnown = recorded[i] > 0 && trusted
			if p.Attempt = recorded[i]; !p.AttemptKnown {
				p.Attempt = max(recorded[i], attemptOf(p, before, others))
			}
			note(p)
		}
		if !trusted || !wrong {
			break
		}
	}
	for _, p := range procs {
		for _, o := range procs {
			if middle := p.Start + (p.LastSeen-p.Start)/2; !p.AttemptKnown && o.Start <= middle && o.LastSeen > middle {
				p.Attempt = max(p.Attempt, o.Attempt)
			}
		}
	}
}

func TestNumber(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 2000 {
		var list, want []*Process
		for i := range 1 + rng.IntN(14) {
			start := rng.Int64N(40)
			p := &Process{Start: start, LastSeen: start + rng.Int64N(15), PID: int64(i)}
			if rng.IntN(2) == 0 {
				p.Rank, p.RankKnown = rng.IntN(4), true
			}
			if rng.IntN(3) == 0 {
				p.Attempt, p.AttemptKnown = 1+rng.IntN(4), true
			}
			list = append(list, p)
		}
		slices.SortStableFunc(list, ByTime)
		for _, p := range list {
			c := *p
			want = append(want, &c)
		}
		(&Job{Processes: list}).number()
		plainly(want)
		for i, p := range list {
			if p.Rank != want[i].Rank || p.Attempt != want[i].Attempt || p.AttemptKnown != want[i].AttemptKnown {
				t.Fatalf("process %d of %d is rank %d, attempt %d, not %d, %d", i, len(list), p.Rank, p.Attempt, want[i].Rank, want[i].Attempt)
			}
		}
	}
}

// Jobs whose records have neither ranks nor attempts.
var many = map[string]func(n int){
	"Processes": func(n int) { // at the same time
		var list []*Process
		for i := range n {
			list = append(list, &Process{Start: int64(i), LastSeen: int64(i + 2*n), PID: int64(i), Spans: 1, Training: true, Host: "h"})
		}
		Assemble(list)
	},
	"Attempts": func(n int) {
		var list []*Process
		for i := range n {
			list = append(list, &Process{Start: int64(10 * i), LastSeen: int64(10*i + 9), PID: int64(i), Spans: 1, Training: true, Host: "h"})
		}
		Assemble(list)
	},
	"Files": func(n int) {
		s := &Set{}
		for i := range n {
			s.traces = append(s.traces, &group{paths: []string{fmt.Sprintf("rank%d.pfw", i)}, start: int64(i), owner: Key{PID: int64(i)}},
				&group{paths: []string{fmt.Sprintf("rank%d.1.pfw", i)}, start: Unknown, owner: Key{PID: int64(i)}, part: true})
		}
		s.join()
		if len(s.traces) != n {
			panic(len(s.traces))
		}
	},
}

func TestGrowth(t *testing.T) {
	for name, f := range many {
		t.Run(name, func(t *testing.T) { growth.Allocated(t, 1000, f) })
	}
}

func BenchmarkGrowth(b *testing.B) {
	for name, f := range many {
		b.Run(name, func(b *testing.B) { growth.Bench(b, 600, f) })
	}
}
