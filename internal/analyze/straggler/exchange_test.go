package straggler_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// TestExchange: the largest part is the injected difference, and the parts add up to nearly the whole
// difference of the steps, regardless of which run is longer.
func TestExchange(t *testing.T) {
	in, fw, bw, comm := straggler.Input, straggler.Forward, straggler.Backward, straggler.Communication
	for _, c := range []struct {
		name     string
		base     job
		next     job
		want     string  // phase, ranks and group of the largest part
		time, by float64 // its time in milliseconds, and the tolerance
	}{
		{"a rank, backward", job{n: 8, m: 200}, job{n: 8, m: 200, faults: []fault{slow([]int{3}, bw, 1.2, 0, 0)}}, "backward [3] ", 26, 4},
		{"all ranks, forward", job{n: 8, m: 200}, job{n: 8, m: 200, faults: []fault{{phases: []straggler.Phase{fw}, factor: 1.2}}}, "forward [] ", 14, 2},
		{"faster input", job{n: 8, m: 120, faults: []fault{{phases: []straggler.Phase{in}, add: 20}}}, job{n: 8, m: 300}, "input [] ", -20, 2},
		{"link", job{n: 8, m: 200}, job{n: 8, m: 100, faults: []fault{{phases: []straggler.Phase{comm}, factor: 2}}}, "communication [] ", 25, 3},
		{"sharded, forward of a rank", job{n: 8, m: 160, layout: "fsdp"}, job{n: 8, m: 160, layout: "fsdp", faults: []fault{slow([]int{2}, fw, 1.5, 0, 0)}}, "forward [2] ", 35, 5},
		{"overlapped, backward of a rank", job{n: 8, m: 160, layout: "overlapped"}, job{n: 8, m: 160, layout: "overlapped", faults: []fault{slow([]int{2}, bw, 1.3, 0, 0)}}, "backward [2] ", 40, 6},
		{"pipeline, input", job{n: 8, m: 160, layout: "pipeline"}, job{n: 8, m: 160, layout: "pipeline", faults: []fault{{phases: []straggler.Phase{in}, add: 30}}}, "input [] ", 30, 3},
		{"saves that the base has not", job{n: 4, m: 200}, job{n: 4, m: 200, ckpt: 20, ckptMS: 500}, "checkpoint [] ", 25, 3},
		{"a link of a sub-group", job{n: 16, m: 160, groups: 4}, job{n: 16, m: 160, groups: 4, faults: []fault{{phases: []straggler.Phase{comm}, factor: 5, group: "g2"}}}, "communication [] g0", 30, 4},
		{"a phase that holds the meeting", job{n: 8, m: 160, layout: "hidden"}, job{n: 8, m: 160, layout: "hidden", faults: []fault{{phases: []straggler.Phase{fw}, factor: 1.3}}}, "forward [] ", 21, 4},
	} {
		c.base.seed, c.next.seed = 5, 6
		a, b := tableOf(c.base.state()), tableOf(c.next.state())
		parts := a.Exchange(b)
		if len(parts) == 0 {
			t.Errorf("%s: Exchange() found no parts, want some", c.name)
			continue
		}
		var sum float64
		for _, p := range parts {
			sum += p.Time
		}
		var diff float64
		for _, p := range b.Period {
			diff += p / float64(len(b.Period))
		}
		for _, p := range a.Period {
			diff -= p / float64(len(a.Period))
		}
		rest := diff - sum
		first := fmt.Sprint(parts[0].Phase, " ", parts[0].Ranks, " ", parts[0].Group)
		t.Logf("%-32s %-20s %6.1f ms of %6.1f, rest %.2f", c.name, first, parts[0].Time/1e6, diff/1e6, rest/1e6)
		if first != c.want || math.Abs(parts[0].Time/1e6-c.time) > c.by {
			t.Errorf("%s: %s takes %.1f ms, want %s %.0f", c.name, first, parts[0].Time/1e6, c.want, c.time)
		}
		if math.Abs(rest) > 0.12*math.Abs(diff) {
			t.Errorf("%s: the parts leave %.2f of %.2f ms unexplained, want at most 12 %%", c.name, rest/1e6, diff/1e6)
		}
	}
	if parts := tableOf((job{n: 4, m: 100}).state()).Exchange(tableOf((job{n: 5, m: 100}).state())); parts != nil {
		t.Errorf("Exchange between 4 and 5 ranks = %v, want nil", parts)
	}
}

// TestExchangeOfMessages: messages between two ranks are no group of collectives.
func TestExchangeOfMessages(t *testing.T) {
	j := job{n: 8, m: 80, layout: "pipeline", stages: 4, peers: true, seed: 5}
	next := j
	next.faults = []fault{{phases: []straggler.Phase{straggler.Input}, add: 30}}
	for _, p := range tableOf(j.state()).Exchange(tableOf(next.state())) {
		if strings.Contains(p.Group, "rank") {
			t.Errorf("part of group %q with %.2f ms, want no part for messages", p.Group, p.Time/1e6)
		}
	}
}

func tableOf(s *straggler.State) *straggler.Table {
	_, t := s.Judge()
	return t
}
