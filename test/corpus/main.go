// Command corpus writes drawn jobs and what is true of each, so that any tool that names
// slow ranks can be scored: README.md describes the files.
//
//	go run ./test/corpus [-seeds N] FOLDER
package main

import (
	"embed"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

//go:embed README.md score.py answer.py
var files embed.FS

// firstSeed is the seed of the first job of each family. Tests draw below it.
const firstSeed = 1000

func main() {
	seeds := flag.Int("seeds", 6, "how many jobs to draw of each family")
	flag.Parse()
	if flag.NArg() != 1 || *seeds < 1 {
		fmt.Fprintln(os.Stderr, "usage: corpus [-seeds N] FOLDER")
		os.Exit(2)
	}
	if err := write(flag.Arg(0), simjob.Families(), *seeds); err != nil {
		fmt.Fprintln(os.Stderr, "corpus:", err)
		os.Exit(1)
	}
}

// write draws jobs of the families and writes dir/jobs/NAME, dir/truth.json and the
// files that describe and score them.
func write(dir string, families []string, seeds int) error {
	all := map[string]truth{}
	for _, family := range families {
		for seed := range uint64(seeds) {
			j := simjob.Draw(firstSeed+seed, family)
			if _, err := j.Write(filepath.Join(dir, "jobs", j.Name)); err != nil {
				return err
			}
			all[j.Name] = truthOf(j, j.Truth())
		}
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "truth.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	for _, name := range []string{"README.md", "score.py", "answer.py"} {
		text, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// answer is one answer that is right, or partly right.
type answer struct {
	Kind   string   `json:"kind"`
	Ranks  []int    `json:"ranks"`            // empty: no rank is named
	Causes []string `json:"causes,omitempty"` // empty: any
}

// truth is the content of truth.json for a job.
type truth struct {
	Family     string             `json:"family"`
	Layout     simjob.Layout      `json:"layout"`
	Ranks      int                `json:"ranks"`
	Steps      int                `json:"steps"`
	Right      []answer           `json:"right"`
	Partly     []answer           `json:"partly,omitempty"`
	Culprits   []int              `json:"culprits"`
	Gains      map[string]float64 `json:"gains"`
	MayAbstain bool               `json:"may_abstain"`
}

// floors are the gains, less 1, below which a fault of a kind is too small to matter. Up
// to twice as much, "fine" is right as well.
var floors = map[string]float64{"slow_ranks": 0.02, "imbalance": 0.05, "input": 0.10, "communication": 0.03, "drift": 0.03}

func truthOf(j *simjob.Job, t *simjob.Truth) truth {
	out := truth{Family: j.Family, Layout: j.Layout, Ranks: j.Ranks, Steps: j.Steps, Culprits: append([]int{}, t.Culprits...), Gains: t.Gains, MayAbstain: t.AbstainOK}
	fine := answer{Kind: "fine", Ranks: []int{}}
	is := answer{Kind: t.Kind, Ranks: append([]int{}, t.Ranks...)}
	switch t.Kind {
	case "slow_ranks":
		is.Causes = causes(t.Phases)
	case "input":
		is.Causes = []string{simjob.Input}
	}
	low, gain := floors[t.Kind], t.Gain-1
	switch {
	case t.Kind == "fine" || t.Kind != "hang" && gain < low/2:
		out.Right = []answer{fine}
	case t.Kind != "hang" && gain < 2*low:
		out.Right = []answer{is, fine}
	default:
		out.Right = []answer{is}
	}
	if t.Kind == "imbalance" { // another rank in each step: an even split gains this
		out.Gains[""] = j.Even()
	}
	if t.Kind == "slow_ranks" && len(t.Ranks) > 1 {
		out.addSingles(t)
	}
	if len(t.Culprits) > len(t.Ranks) {
		out.Right = append(out.Right, answer{Kind: t.Kind, Ranks: t.Culprits})
	}
	if t.Kind == "hang" && t.AbstainOK {
		out.Right = append(out.Right, answer{Kind: t.Kind, Ranks: []int{}})
	}
	if j.Layout == simjob.GPUTP && len(t.Ranks) == 1 { // the peer waits in each layer
		first := t.Ranks[0] / 2 * 2
		out.Partly = append(out.Partly, answer{Kind: t.Kind, Ranks: []int{first, first + 1}})
	}
	return out
}

// addSingles adds, of several slow ranks, each alone: right if its repair gains most of
// all single ranks, else partly right.
func (out *truth) addSingles(t *simjob.Truth) {
	best := 0.0
	for _, r := range t.Culprits {
		best = max(best, t.Gains[strconv.Itoa(r)])
	}
	for _, r := range t.Ranks {
		one := answer{Kind: t.Kind, Ranks: []int{r}}
		if g := t.Gains[strconv.Itoa(r)]; g >= 1+floors[t.Kind] && g >= best {
			out.Right = append(out.Right, one)
		} else {
			out.Partly = append(out.Partly, one)
		}
	}
}

// causes are the right words for the cause of a fault in one phase; of several phases any
// word is.
func causes(phases []string) []string {
	if len(phases) != 1 {
		return nil
	}
	switch p := phases[0]; p {
	case simjob.Forward, simjob.Backward:
		return []string{p, "compute", "mixed"}
	case simjob.Launch:
		return []string{simjob.Host, "mixed", "compute", simjob.Forward, simjob.Backward, simjob.Optimizer}
	default:
		return []string{p}
	}
}
