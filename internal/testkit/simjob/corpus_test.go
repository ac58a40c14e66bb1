package simjob

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// outVar names the folder for TestCorpus, which is skipped without it.
const outVar = "TRAINSPAN_SIM_OUT"

// each is the number of jobs of a family.
const each = 6

type answer struct {
	Kinds  []string `json:"kinds"`
	Ranks  []int    `json:"ranks"`
	Causes []string `json:"causes,omitempty"`
}

// entry is the entry of a job in truth.json.
type entry struct {
	Absent      *float64           `json:"absent_share"`
	AbstainOK   bool               `json:"abstain_ok"`
	Accept      []answer           `json:"accept"`
	Best        string             `json:"best"`
	BlameWrong  bool               `json:"blame_wrong"`
	Culprits    []int              `json:"culprits"`
	Family      string             `json:"family"`
	Gain        float64            `json:"gain"`
	Gains       map[string]float64 `json:"gains"`
	GainsAlt    map[string]float64 `json:"gains_alt"`
	Hang        any                `json:"hang"`
	Layout      Layout             `json:"layout"`
	Maker       string             `json:"maker"`
	NaturalGain float64            `json:"natural_gain"`
	NaturalRank int                `json:"natural_rank"`
	Note        string             `json:"note"`
	Partly      []answer           `json:"partly"`
	Ranks       int                `json:"ranks"`
	Steps       int                `json:"steps"`
	WaitShare   *float64           `json:"wait_share"`
}

// accepted are the words of the report for a kind of truth, including older
// ones.
var accepted = map[string][]string{
	"fine":          {"healthy"},
	"slow_ranks":    {"straggler", "intermittent_straggler", "checkpoint_stall"},
	"imbalance":     {"rotating_stalls", "uneven_work", "imbalance"},
	"input":         {"input_bound"},
	"communication": {"slow_communication"},
	"drift":         {"slowdown_all"},
	"hang":          {"rank_lost", "hang"},
}

// floor is the gain - 1 below which a job counts as fine; up to twice that,
// both results are correct.
var floor = map[string]float64{"slow_ranks": 0.02, "imbalance": 0.05, "input": 0.10, "communication": 0.03, "drift": 0.03}

// causes returns the words for the phases of a job's faults.
func causes(phases []string) []string {
	if len(phases) != 1 {
		return nil
	}
	switch p := phases[0]; p {
	case Forward, Backward:
		return []string{p, "compute", "mixed"}
	case Launch:
		return []string{Host, "mixed", "compute", Forward, Backward, Optimizer}
	default:
		return []string{p}
	}
}

func entryOf(j *Job, t *Truth, waiting float64) entry {
	healthy := answer{Kinds: accepted["fine"], Ranks: []int{}}
	e := entry{AbstainOK: t.AbstainOK, Culprits: t.Culprits, Family: j.Family, Gains: t.Gains, Layout: j.Layout, Maker: "trainsim",
		NaturalGain: t.NaturalGain, NaturalRank: t.NaturalRank, Ranks: j.Ranks, Steps: j.Steps, BlameWrong: len(t.Culprits) == 0, Note: j.Name}
	ranks := append([]int{}, t.Ranks...)
	truth := answer{Kinds: accepted[t.Kind], Ranks: ranks}
	if t.Kind == "slow_ranks" || t.Kind == "input" {
		truth.Causes = causes(t.Phases)
	}
	if t.Kind == "input" {
		truth.Causes = []string{Input}
	}
	if t.Kind != "fine" && t.Kind != "hang" {
		e.Best, e.Gain = set(ranks), t.Gain
	}
	nobody := answer{Kinds: truth.Kinds, Ranks: []int{}}
	if t.Kind == "imbalance" {
		e.GainsAlt = map[string]float64{"": j.Even()}
	}
	low := floor[t.Kind]
	switch gain := t.Gain - 1; {
	case t.Kind == "fine" || t.Kind != "hang" && gain < low/2:
		e.Accept = []answer{healthy}
	case t.Kind != "hang" && gain < 2*low:
		e.Accept = []answer{truth, healthy}
	default:
		e.Accept = []answer{truth}
	}
	if t.Kind == "slow_ranks" && len(ranks) > 1 { // one whose repair gains something, or nothing
		for _, r := range ranks {
			one := answer{Kinds: truth.Kinds, Ranks: []int{r}}
			if g := t.Gains[set(one.Ranks)]; g >= 1.02 && g >= bestOne(t) {
				e.Accept = append(e.Accept, one)
			} else {
				e.Partly = append(e.Partly, one)
			}
		}
	}
	if j.Layout == GPUTP && len(ranks) == 1 { // its peer waits in each layer
		first := ranks[0] / 2 * 2
		e.Partly = append(e.Partly, answer{Kinds: truth.Kinds, Ranks: []int{first, first + 1}})
	}
	if t.Kind == "hang" && t.AbstainOK {
		e.Accept = append(e.Accept, nobody)
	}
	if len(t.Culprits) > len(ranks) {
		e.Accept = append(e.Accept, answer{Kinds: truth.Kinds, Ranks: t.Culprits})
	}
	if f := j.fault(Hang); f != nil {
		e.Hang = map[string]any{"ranks": f.Ranks, "phase": f.Phase, "step": f.From, "watchdog_ms": f.Watchdog}
	} else if j.fault(Kill) == nil && !j.onGPU() && !j.Unrecorded {
		e.WaitShare = &waiting
	}
	return e
}

// bestOne returns the largest gain of the repair of one rank.
func bestOne(t *Truth) (best float64) {
	for _, r := range t.Culprits {
		best = max(best, t.Gains[set([]int{r})])
	}
	return best
}

// TestCorpus writes random jobs of all families with their truth: DIR/jobs/NAME
// and DIR/truth.json.
func TestCorpus(t *testing.T) {
	dir := os.Getenv(outVar)
	if dir == "" {
		t.Skip("set " + outVar + " to the folder to write")
	}
	all := map[string]entry{}
	for _, family := range Families() {
		for seed := range uint64(each) {
			j := Draw(1000+seed, family)
			res, err := j.Write(filepath.Join(dir, "jobs", j.Name))
			if err != nil {
				t.Fatal(err)
			}
			all[j.Name] = entryOf(j, j.Truth(true), res.Waiting)
		}
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "truth.json"), append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
