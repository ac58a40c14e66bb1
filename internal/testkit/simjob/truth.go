package simjob

import (
	"slices"
	"strconv"
	"strings"
)

// Truth is the known result for a job.
type Truth struct {
	Kind      string // fine, slow_ranks, imbalance, input, communication, drift, hang or unknown
	Ranks     []int  // the smallest set whose repair has nine tenths of the gain of all
	Culprits  []int  // all that have a fault, and the ends of a slow link
	Phases    []string
	Gain      float64            // of the repair of Ranks, or of all; 1 if there is nothing to repair
	Gains     map[string]float64 // by ranks, "" is the repair of all
	AbstainOK bool
}

// set returns the text of a set of ranks.
func set(ranks []int) string {
	words := make([]string, len(ranks))
	for i, r := range ranks {
		words[i] = strconv.Itoa(r)
	}
	return strings.Join(words, ",")
}

// kinds are the words for the faults that are not those of a rank.
var kinds = map[What]string{Link: "communication", Imbalance: "imbalance", Tokens: "imbalance", Storage: "input", Drift: "drift"}

// Truth computes the truth of the job, by running it again without its faults.
func (j *Job) Truth() *Truth {
	t := &Truth{Kind: "fine", Gain: 1, Gains: map[string]float64{}, AbstainOK: j.Unrecorded || j.NoDevice || j.Layout == GPUTP}
	for _, f := range j.Faults {
		switch f.What {
		case Hang:
			t.Kind, t.Ranks, t.Culprits, t.Phases = "hang", f.Ranks, f.Ranks, []string{f.Phase}
			// In backward all devices wait for that one, and no record distinguishes them.
			t.AbstainOK = j.NoDevice || j.onGPU() && f.Phase == Backward
			return t
		case Kill:
			t.AbstainOK = true
		case Link:
			t.Culprits = j.members(f.Group)
			fallthrough
		default:
			t.Gain = j.Gain(func(o *Fault) bool { return o.What == f.What })
			t.Kind, t.Phases, t.Gains[""] = kinds[f.What], []string{f.Phase}, t.Gain
		case Slow:
			t.Culprits = append(t.Culprits, f.Ranks...)
			t.Phases = append(t.Phases, f.Phase)
		}
	}
	slices.Sort(t.Culprits)
	t.Culprits = slices.Compact(t.Culprits)
	if len(t.Culprits) == 0 || t.Kind == "communication" {
		return t
	}
	t.Gain = j.GainOf(t.Culprits...)
	t.Kind, t.Ranks, t.Gains[set(t.Culprits)] = "slow_ranks", t.Culprits, t.Gain
	for _, r := range t.Culprits {
		t.Gains[strconv.Itoa(r)] = j.GainOf(r)
	}
	// While nine tenths of the gain remain, the set loses the rank with the
	// smallest gain.
	for len(t.Ranks) > 1 {
		best, left := 0.0, []int(nil)
		for i := range t.Ranks {
			rest := slices.Delete(slices.Clone(t.Ranks), i, i+1)
			if g := j.GainOf(rest...); g > best {
				best, left = g, rest
			}
		}
		if best-1 < 0.9*(t.Gain-1) {
			break
		}
		t.Ranks, t.Gains[set(left)] = left, best
	}
	t.Gain = t.Gains[set(t.Ranks)]
	return t
}

// members returns the ranks of a group, nil for all.
func (j *Job) members(group string) (out []int) {
	for _, l := range j.engine().lanes {
		for _, o := range l.ops {
			if o.kind == meet && o.key.what == group && !slices.Contains(out, l.rank) {
				out = append(out, l.rank)
			}
		}
	}
	if len(out) == j.Ranks {
		return nil
	}
	return out
}
