package replay_test

import (
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/replay"
)

// scenario is a kind of job with its true answer.
type scenario struct {
	name  string
	job   job
	kind  replay.Kind
	ranks []int
	cause string
	from  int64 // -1: not judged
	also  []replay.Kind
}

func slow(ranks []int, p replay.Phase, factor, add float64, from int) fault {
	return fault{ranks: ranks, phases: []replay.Phase{p}, factor: factor, add: add, from: from}
}

func scenarios() []scenario {
	in, fw, bw, comm := replay.Input, replay.Forward, replay.Backward, replay.Communication
	abstain := []replay.Kind{replay.Unknown}
	both := fault{ranks: []int{3}, phases: []replay.Phase{fw, bw}, factor: 1.2, from: 60}
	wander := func(n, m int) job { return job{n: n, m: m, phi: 0.9, sigma: 0.04} }
	with := func(j job, f ...fault) job { j.faults = f; return j }
	lay := func(l string, f ...fault) job { return job{n: 8, m: 160, layout: l, faults: f} }
	flat := func(l string, f ...fault) job { j := lay(l, f...); j.noLanes = true; return j }
	return []scenario{
		{"healthy, 4 ranks", job{n: 4, m: 130}, replay.Fine, nil, "", -1, nil},
		{"healthy, 32 ranks", job{n: 32, m: 130}, replay.Fine, nil, "", -1, nil},
		{"healthy, long calls", job{n: 8, m: 130, tail: 0.005}, replay.Fine, nil, "", -1, nil},
		{"healthy, ranks differ by 1.5 %", job{n: 8, m: 130, static: 0.015}, replay.Fine, nil, "", -1, nil},
		{"healthy, wandering, 2 ranks", wander(2, 130), replay.Fine, nil, "", -1, nil},
		{"healthy, wandering, 4 ranks", wander(4, 130), replay.Fine, nil, "", -1, nil},
		{"healthy, wandering, 8 ranks", wander(8, 130), replay.Fine, nil, "", -1, nil},
		{"healthy, wandering, 32 ranks", wander(32, 130), replay.Fine, nil, "", -1, nil},
		{"healthy, wandering slower (0.97)", job{n: 8, m: 200, phi: 0.97, sigma: 0.02}, replay.Fine, nil, "", -1, nil},
		{"wandering, forward x1.5 from 60", with(wander(8, 200), slow([]int{3}, fw, 1.5, 0, 60)), replay.SlowRanks, []int{3}, "forward", 60, nil},
		{"wandering, input +60 ms", with(wander(8, 130), slow([]int{3}, in, 0, 60, 0)), replay.SlowRanks, []int{3}, "input", 0, nil},
		{"+4 % of a step, 8 ranks", with(job{n: 8, m: 130}, slow([]int{5}, in, 0, 10, 0)), replay.SlowRanks, []int{5}, "input", 0, []replay.Kind{replay.Fine}},
		{"+6 % of a step, 8 ranks", with(job{n: 8, m: 130}, slow([]int{5}, in, 0, 15, 0)), replay.SlowRanks, []int{5}, "input", 0, nil},
		{"slow for 40 of 200 steps", with(job{n: 8, m: 200}, fault{ranks: []int{2}, phases: []replay.Phase{fw}, factor: 1.5, from: 80, to: 120}), replay.SlowRanks, []int{2}, "forward", 80, nil},
		{"ramp over 100 steps from 60", with(job{n: 8, m: 240}, fault{ranks: []int{2}, phases: []replay.Phase{fw}, factor: 1.5, from: 60, ramp: 100}), replay.SlowRanks, []int{2}, "forward", 60, nil},
		{"ramp over 60 steps from 100", with(job{n: 8, m: 240}, fault{ranks: []int{2}, phases: []replay.Phase{in}, add: 50, from: 100, ramp: 60}), replay.SlowRanks, []int{2}, "input", 100, nil},
		{"half of the steps +50 ms", with(job{n: 8, m: 200}, fault{ranks: []int{2}, phases: []replay.Phase{fw}, add: 50, prob: 0.5}), replay.SlowRanks, []int{2}, "forward", -1, []replay.Kind{replay.SlowRanks}},
		{"two ranks of a host, compute", with(job{n: 8, m: 160}, fault{ranks: []int{4, 5}, phases: []replay.Phase{fw, bw}, factor: 1.2}), replay.SlowRanks, []int{4, 5}, "compute", 0, nil},
		{"half of the ranks, compute", with(job{n: 8, m: 160}, fault{ranks: []int{4, 5, 6, 7}, phases: []replay.Phase{fw, bw}, factor: 1.2}), replay.SlowRanks, []int{4, 5, 6, 7}, "compute", 0, nil},
		{"a host pauses now and then", with(job{n: 16, m: 200}, fault{ranks: []int{6}, phases: []replay.Phase{replay.Host}, add: 300, prob: 0.05}), replay.SlowRanks, []int{6}, "host", -1, nil},
		{"random pauses", with(job{n: 8, m: 200}, fault{phases: []replay.Phase{fw}, add: 200, prob: 0.02}), replay.Imbalance, nil, "forward", -1, nil},
		{"all slower from 80", with(job{n: 8, m: 160}, fault{phases: []replay.Phase{fw, bw}, factor: 1.15, from: 80}), replay.Drift, nil, "compute", 80, nil},
		{"waits for gradients, healthy", job{n: 8, m: 160, joins: true}, replay.Fine, nil, "", -1, nil},
		{"waits for gradients, backward", job{n: 8, m: 160, joins: true, faults: []fault{slow([]int{3}, bw, 1.2, 0, 60)}}, replay.SlowRanks, []int{3}, "backward", 60, nil},
		{"optimizer of one rank", lay("separate", slow([]int{1}, replay.Optimizer, 4, 0, 40)), replay.SlowRanks, []int{1}, "optimizer", 40, nil},
		{"copy of one rank, micro-batches", with(job{n: 8, m: 160, accum: 4, layout: "nested"}, slow([]int{1}, replay.Transfer, 0, 30, 0)), replay.SlowRanks, []int{1}, "transfer", 0, nil},
		{"micro-batches without comm spans, compute", with(job{n: 8, m: 200, accum: 4, layout: "hidden"}, both), replay.SlowRanks, []int{3}, "compute", 60, abstain},
		{"collective every 4 steps, slow input", with(job{n: 8, m: 240, every: 4}, slow([]int{3}, in, 0, 40, 0)), replay.SlowRanks, []int{3}, "input", 0, nil},
		{"slow rank in a sub-group", with(job{n: 16, m: 160, groups: 4}, slow([]int{9}, bw, 1.3, 0, 0)), replay.SlowRanks, []int{9}, "backward", 0, nil},
		{"slow link of a sub-group from 60", with(job{n: 16, m: 160, groups: 4}, fault{phases: []replay.Phase{comm}, factor: 5, from: 60, group: "g2"}), replay.SlowTransfer, []int{8, 9, 10, 11}, "communication", 60, nil},
		{"one of two sub-groups", with(job{n: 8, m: 160, groups: 4}, fault{phases: []replay.Phase{comm}, factor: 5, group: "g1"}), replay.SlowTransfer, []int{4, 5, 6, 7}, "communication", 0, nil},
		{"async, backward", lay("async", slow([]int{2}, bw, 1.3, 0, 50)), replay.SlowRanks, []int{2}, "compute", -1, abstain},
		{"missing rank, healthy", job{n: 8, m: 160, missing: []int{3}}, replay.Fine, nil, "", -1, abstain},
		{"missing rank is slow, +30 ms", job{n: 8, m: 160, missing: []int{3}, faults: []fault{slow([]int{3}, in, 0, 30, 0)}}, replay.Unknown, nil, "", -1, nil},
		{"rank 0 saves", job{n: 8, m: 200, ckpt: 40, ckptMS: 20, faults: []fault{slow([]int{0}, replay.Checkpoint, 0, 1500, 0)}}, replay.SlowRanks, []int{0}, "checkpoint", -1, nil},
		{"all save", job{n: 8, m: 200, ckpt: 40, ckptMS: 1500}, replay.Fine, nil, "", -1, nil},
		{"more tokens", job{n: 8, m: 160, tokens: true, faults: []fault{{ranks: []int{5}, factor: 1.3, work: true, from: 50}}}, replay.Imbalance, []int{5}, "work", 50, nil},
		{"random lengths", job{n: 8, m: 160, tokens: true, faults: []fault{{anyone: true, vary: 0.2, work: true}}}, replay.Imbalance, nil, "work", -1, nil},
		{"random lengths and a slow rank", job{n: 8, m: 160, tokens: true, faults: []fault{{anyone: true, vary: 0.1, work: true}, {ranks: []int{3}, phases: []replay.Phase{fw, bw}, factor: 1.5}}}, replay.SlowRanks, []int{3}, "compute", 0, nil},
		{"overlapped, healthy", lay("overlapped"), replay.Fine, nil, "", -1, nil},
		{"overlapped, forward", lay("overlapped", slow([]int{3}, fw, 1.3, 0, 60)), replay.SlowRanks, []int{3}, "forward", 60, nil},
		{"overlapped, backward", lay("overlapped", slow([]int{3}, bw, 1.2, 0, 60)), replay.SlowRanks, []int{3}, "backward", 60, nil},
		{"overlapped, input", lay("overlapped", slow([]int{3}, in, 0, 30, 0)), replay.SlowRanks, []int{3}, "input", 0, nil},
		{"overlapped, slow link", lay("overlapped", fault{phases: []replay.Phase{comm}, factor: 8, from: 80}), replay.SlowTransfer, nil, "communication", 80, nil},
		{"overlapped in files without threads, healthy", flat("overlapped"), replay.Fine, nil, "", -1, nil},
		{"overlapped in files without threads, backward", flat("overlapped", slow([]int{3}, bw, 1.2, 0, 60)), replay.SlowRanks, []int{3}, "backward", 60, nil},
		{"overlapped in files without threads, input", flat("overlapped", slow([]int{3}, in, 0, 30, 0)), replay.SlowRanks, []int{3}, "input", 0, abstain},
		{"fsdp in files without threads, healthy", flat("fsdp"), replay.Fine, nil, "", -1, nil},
		{"fsdp in files without threads, forward", flat("fsdp", slow([]int{3}, fw, 1.4, 0, 60)), replay.SlowRanks, []int{3}, "forward", 60, nil},
		{"fsdp, healthy", lay("fsdp"), replay.Fine, nil, "", -1, nil},
		{"fsdp, forward", lay("fsdp", slow([]int{3}, fw, 1.4, 0, 60)), replay.SlowRanks, []int{3}, "forward", 60, nil},
		{"fsdp, compute", lay("fsdp", both), replay.SlowRanks, []int{3}, "compute", 60, nil},
		{"fsdp, input", lay("fsdp", slow([]int{3}, in, 0, 30, 0)), replay.SlowRanks, []int{3}, "input", 0, nil},
		{"fsdp, slow link", lay("fsdp", fault{phases: []replay.Phase{comm}, factor: 8, from: 80}), replay.SlowTransfer, nil, "communication", 80, nil},
		{"pipeline, healthy", lay("pipeline"), replay.Fine, nil, "", -1, nil},
		{"pipeline, compute", lay("pipeline", both), replay.SlowRanks, []int{3}, "compute", 60, nil},
		{"pipeline, input", lay("pipeline", slow([]int{2}, in, 0, 40, 0)), replay.SlowRanks, []int{2}, "input", 0, nil},
		{"pipeline of 4, compute", job{n: 16, m: 160, layout: "pipeline", stages: 4, faults: []fault{{ranks: []int{5}, phases: []replay.Phase{fw, bw}, factor: 1.4, from: 60}}}, replay.SlowRanks, []int{5}, "compute", 60, nil},
		{"pipeline without spans of its waits, healthy", job{n: 8, m: 160, layout: "pipeline", noP2P: true}, replay.Fine, nil, "", -1, abstain},
		{"pipeline without spans of its waits, compute", job{n: 8, m: 160, layout: "pipeline", noP2P: true, faults: []fault{both}}, replay.SlowRanks, []int{3}, "compute", 60, abstain},
		{"pipeline of one replica, compute from 60", job{n: 4, m: 160, layout: "pipeline", stages: 4, faults: []fault{{ranks: []int{2}, phases: []replay.Phase{fw, bw}, factor: 1.5, from: 60}}}, replay.SlowRanks, []int{2}, "compute", 60, abstain},
	}
}

// outcome compares as the corpus' scorer does.
func (sc scenario) outcome(v *replay.Verdict) string {
	named := len(v.Ranks) > 0
	innocent := slices.ContainsFunc(v.Ranks, func(r int) bool { return !slices.Contains(sc.ranks, r) })
	switch {
	case v.Kind == sc.kind && slices.Equal(v.Ranks, sc.ranks) && v.Cause == sc.cause:
		return "right"
	case slices.Contains(sc.also, v.Kind) && (!named || slices.Equal(v.Ranks, sc.ranks)):
		if v.Kind == replay.Unknown {
			return "abstained"
		}
		return "accepted"
	case v.Kind == replay.Unknown:
		return "abstained_wrongly"
	case sc.kind == replay.Fine:
		return "false_alarm"
	case v.Kind == replay.Fine:
		return "missed"
	case named && innocent && !slices.ContainsFunc(v.Ranks, func(r int) bool { return slices.Contains(sc.ranks, r) }):
		return "wrong_blame"
	case named && slices.Equal(v.Ranks, sc.ranks):
		return "wrong_cause"
	case named:
		return "partly"
	}
	return "other"
}

// TestRates runs each scenario with several seeds and prints the rates that
// docs/stragglers.md shows. TRAINSPAN_STRAGGLER_SEEDS is the number of seeds; with one
// each of them must be right.
func TestRates(t *testing.T) {
	seeds := 4
	if testing.Short() {
		seeds = 1
	}
	fmt.Sscan(os.Getenv("TRAINSPAN_STRAGGLER_SEEDS"), &seeds)
	totals := map[string]int{}
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			got := map[string]int{}
			var off []float64
			for i := range seeds {
				j := sc.job
				j.seed = uint64(1000 + i)
				v := j.state().Verdict()
				o := sc.outcome(v)
				got[o]++
				totals[o]++
				if o == "right" && sc.from >= 0 {
					off = append(off, float64(v.FromStep-sc.from))
				}
				if bad := o != "right" && o != "accepted" && o != "abstained"; bad && testing.Verbose() {
					t.Logf("seed %d: %s: %s", j.seed, o, v.Sentence)
				}
			}
			late := ""
			if len(off) > 0 {
				sort.Float64s(off)
				late = fmt.Sprintf(", first step off by %+.0f (%+.0f … %+.0f)", off[len(off)/2], off[0], off[len(off)-1])
			}
			t.Logf("| %s | %s%s |", sc.name, strings.TrimPrefix(fmt.Sprint(got), "map"), late)
			if got["wrong_blame"] > seeds/50 || got["false_alarm"] > seeds/25 {
				t.Errorf("blames the innocent: %v", got)
			}
			if ok := got["right"] + got["accepted"] + got["abstained"]; 10*ok < 9*seeds-10 || seeds == 1 && ok == 0 {
				t.Errorf("right in %d of %d: %v", ok, seeds, got)
			}
		})
	}
	t.Logf("all: %v", totals)
}
