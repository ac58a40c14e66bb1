package job

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// plainlyAtOnce is a simple atOnce that compares each attempt with all before.
func plainlyAtOnce(j *Job) {
	list := j.attemptStarts()
	for i, b := range list {
		for _, a := range list[:i] {
			if len(a.procs) == 0 || a.start >= b.stop || b.start >= a.stop {
				continue
			}
			if n, m := nodesOf(a), nodesOf(b); n == nil || m == nil || n.meets(m) {
				continue
			}
			for _, p := range b.procs {
				p.Attempt = a.number
			}
			a.start, a.stop = min(a.start, b.start), max(a.stop, b.stop)
			a.jobs, a.procs = append(a.jobs, b.jobs...), append(a.procs, b.procs...)
			b.procs = nil
			break
		}
	}
}

func TestAtOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	merged := 0
	for range 5000 {
		got, want := &Job{}, &Job{}
		for i := range 2 + rng.IntN(10) {
			start := rng.Int64N(60)
			p := Process{Start: start, LastSeen: start + rng.Int64N(40), Attempt: 1 + i/2 + rng.IntN(2), Rank: rng.IntN(4), RankKnown: rng.IntN(8) > 0, WorldSize: 4, Host: fmt.Sprint("host", rng.IntN(6)), JobID: fmt.Sprint("job", i/2)}
			o := p
			got.Processes, want.Processes = append(got.Processes, &p), append(want.Processes, &o)
		}
		before := len(got.attemptStarts())
		got.atOnce()
		plainlyAtOnce(want)
		for i, p := range got.Processes {
			if p.Attempt != want.Processes[i].Attempt {
				t.Fatalf("process %d of %d: attempt %d, want %d", i, len(got.Processes), p.Attempt, want.Processes[i].Attempt)
			}
		}
		merged += before - len(got.attemptStarts())
	}
	if merged == 0 {
		t.Error("no attempt of these jobs is on several nodes")
	}
}
