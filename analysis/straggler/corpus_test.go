package straggler_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/analysis/straggler"
)

// phaseOf names the spans of the corpus.
var phaseOf = map[string]straggler.Phase{
	"data_loading": straggler.Input, "transfer": straggler.Transfer, "model_forward": straggler.Forward,
	"model_backward": straggler.Backward, "all_reduce": straggler.Communication, "reduce_scatter": straggler.Communication,
	"optimizer_update": straggler.Optimizer, "checkpoint_save_sync": straggler.Checkpoint,
}

type corpusLine struct {
	Meta      int      `json:"meta"`
	WorldSize int      `json:"world_size"`
	Hosts     []int    `json:"hosts"`
	Roles     []string `json:"roles"`
	Rank      int      `json:"rank"`
	Step      int64    `json:"step"`
	Name      string   `json:"name"`
	Start     int64    `json:"start_ns"`
	Dur       int64    `json:"dur_ns"`
	Attrs     struct {
		Tokens int64  `json:"tokens"`
		Group  string `json:"group"`
	} `json:"attrs"`
}

// readCorpusCase feeds one generated file.
func readCorpusCase(path string) (*straggler.State, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st := straggler.New(nil)
	type key struct {
		rank int
		step int64
	}
	steps := map[key]*straggler.Step{}
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		var l corpusLine
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if l.Meta != 0 {
			st.SetWorldSize(l.WorldSize)
			for r, h := range l.Hosts {
				info := straggler.Rank{Host: fmt.Sprintf("host%d", h)}
				if len(l.Roles) > 0 {
					info.Role = l.Roles[r]
				}
				st.SetRank(r, info)
			}
			continue
		}
		k := key{l.Rank, l.Step}
		if steps[k] == nil {
			steps[k] = &straggler.Step{Rank: l.Rank, Number: l.Step}
		}
		s := steps[k]
		if l.Name == "training_single_iteration" {
			s.Tokens = l.Attrs.Tokens
			continue
		}
		end := l.Start + l.Dur
		if l.Dur < 0 {
			end = 0
		}
		s.Spans = append(s.Spans, straggler.Span{Phase: phaseOf[l.Name], Start: l.Start, End: end, Group: l.Attrs.Group})
	}
	for _, s := range steps { // in no order, on purpose
		st.Add(s)
	}
	return st, sc.Err()
}

// TestCorpus generates the cases named by TRAINSPAN_STRAGGLER, a list of
// cases.json files with gen.py beside at least one of them, and scores the
// verdicts. It fails on wrong blame, on false alarms, and on more than two of
// sixty cases that are neither right nor an allowed abstention.
func TestCorpus(t *testing.T) {
	list := os.Getenv("TRAINSPAN_STRAGGLER")
	if list == "" {
		t.Skip("TRAINSPAN_STRAGGLER is not set: no corpus of stragglers to score")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 to generate the corpus with")
	}
	files := filepath.SplitList(list)
	gen := ""
	for _, f := range files {
		if g := filepath.Join(filepath.Dir(f), "gen.py"); gen == "" {
			if _, err := os.Stat(g); err == nil {
				gen = g
			}
		}
	}
	if gen == "" {
		t.Skip("no gen.py beside " + list)
	}
	for _, f := range files {
		t.Run(filepath.Base(filepath.Dir(f)), func(t *testing.T) { scoreCorpus(t, python, gen, f) })
	}
}

func scoreCorpus(t *testing.T, python, gen, cases string) {
	if _, err := os.Stat(cases); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if out, err := exec.Command(python, gen, cases, "--all", dir).CombinedOutput(); err != nil {
		t.Fatalf("gen.py: %v\n%s", err, out)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("gen.py wrote no cases: %v", err)
	}
	verdicts := map[string]any{}
	said := map[string]*straggler.Verdict{}
	for _, p := range paths {
		st, err := readCorpusCase(p)
		if err != nil {
			t.Fatal(err)
		}
		v := st.Verdict()
		id := strings.TrimSuffix(filepath.Base(p), ".jsonl")
		said[id] = v
		out := map[string]any{"kind": v.Kind, "ranks": v.Ranks, "suspects": v.Suspects, "reason": v.Reason}
		if v.Cause != "" {
			out["cause"] = v.Cause
		}
		if v.Kind != straggler.Healthy && v.Kind != straggler.InsufficientEvidence {
			out["from_step"] = v.FromStep
			if v.Slowdown > 0 {
				out["slowdown"] = v.Slowdown
			}
		}
		verdicts[id] = out
		os.Remove(p)
	}
	data, _ := json.Marshal(verdicts)
	answers := filepath.Join(dir, "verdicts.json")
	if err := os.WriteFile(answers, data, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(python, gen, cases, "--score", answers).CombinedOutput()
	if err != nil {
		t.Fatalf("gen.py --score: %v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, l := range lines[:len(lines)-1] {
		id, _, _ := strings.Cut(l, " ")
		t.Logf("%-60s | %s", l, said[id].Sentence)
	}
	totals := map[string]int{}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &totals); err != nil {
		t.Fatalf("the scorer's last line %q: %v", lines[len(lines)-1], err)
	}
	t.Logf("%d cases: %s", len(paths), lines[len(lines)-1])
	if totals["wrong_blame"] > 0 || totals["false_alarm"] > 0 {
		t.Errorf("wrong blame %d, false alarms %d: want none", totals["wrong_blame"], totals["false_alarm"])
	}
	if bad := len(paths) - totals["right"] - totals["abstained"]; 30*bad > len(paths) {
		t.Errorf("%d of %d cases are neither right nor a correct abstention", bad, len(paths))
	}
}
