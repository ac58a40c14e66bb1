package straggler_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
	"golang.org/x/sync/errgroup"
)

// phaseOf maps the span names of the corpus to phases; collectives have their own category.
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
	Category  string   `json:"category"`
	Start     int64    `json:"start_ns"`
	Dur       int64    `json:"dur_ns"`
	Attrs     struct {
		Tokens int64  `json:"tokens"`
		Group  string `json:"group"`
	} `json:"attrs"`
}

// readCorpusCase reads the spans of a case as the generator writes them.
func readCorpusCase(from io.Reader) (*straggler.State, error) {
	st := straggler.New(nil)
	type key struct {
		rank int
		step int64
	}
	steps := map[key]*straggler.Step{}
	sc := bufio.NewScanner(from)
	sc.Buffer(nil, 16<<20) // the metadata line has an entry for each rank
	for sc.Scan() {
		var l corpusLine
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("line %.200q: %w", sc.Bytes(), err)
		}
		if l.Meta != 0 {
			st.SetWorldSize(l.WorldSize)
			for r, h := range l.Hosts {
				info := straggler.Rank{Host: fmt.Sprintf("host%d", h)}
				if r < len(l.Roles) {
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
			if l.Dur >= 0 {
				s.Start, s.End = l.Start, l.Start+l.Dur
			}
			continue
		}
		end := l.Start + l.Dur
		if l.Dur < 0 {
			end = 0
		}
		phase, known := phaseOf[l.Name]
		switch {
		case l.Category == "comm":
			phase = straggler.Communication
		case !known:
			phase = straggler.Other
		}
		s.Spans = append(s.Spans, straggler.Span{Phase: phase, Start: l.Start, End: end, Group: l.Attrs.Group})
	}
	for _, s := range steps { // map order: the order of steps must not matter
		if s.End == 0 {
			s.Start = s.Spans[0].Start // started but not ended
		}
		st.Add(s)
	}
	return st, sc.Err()
}

// generator returns the path of gen.py: in the directory of the cases, or in the shared corpus.
func generator(cases string) (string, error) {
	shared := filepath.Join("..", "..", "..", "..", "shared", "data", "straggler")
	for _, dir := range []string{filepath.Dir(cases), shared} {
		g := filepath.Join(dir, "gen.py")
		if _, err := os.Stat(g); err == nil {
			return filepath.Abs(g)
		}
	}
	return "", fmt.Errorf("no gen.py beside %s, nor in %s", cases, shared)
}

// TestCorpus generates the cases of the files listed in TRAINSPAN_STRAGGLER, separated as in PATH, and scores
// the verdicts. It fails on wrong blame, on false alarms, and if more than two of sixty cases are neither
// right nor an allowed abstention.
func TestCorpus(t *testing.T) {
	list := os.Getenv("TRAINSPAN_STRAGGLER")
	if list == "" {
		t.Skip("TRAINSPAN_STRAGGLER is not set: no corpus of stragglers to score")
	}
	python := pyrun.Interpreter(t)
	for _, cases := range filepath.SplitList(list) {
		t.Run(filepath.Base(filepath.Dir(cases))+"/"+filepath.Base(cases), func(t *testing.T) {
			gen, err := generator(cases)
			if err != nil {
				t.Fatal(err)
			}
			scoreCorpus(t, corpus{python, gen, cases})
		})
	}
}

// corpus is one file of cases and the tools to run it.
type corpus struct{ python, gen, cases string }

// read returns the ids of the cases and their raw JSON by id.
func (c corpus) read() (ids []string, cases map[string]json.RawMessage, err error) {
	data, err := os.ReadFile(c.cases)
	if err != nil {
		return nil, nil, err
	}
	var file struct {
		Cases []json.RawMessage `json:"cases"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", c.cases, err)
	}
	cases = make(map[string]json.RawMessage)
	for _, raw := range file.Cases {
		var x struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(raw, &x); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", c.cases, err)
		}
		ids, cases[x.ID] = append(ids, x.ID), raw
	}
	if len(ids) == 0 {
		return nil, nil, fmt.Errorf("%s holds no cases", c.cases)
	}
	return ids, cases, nil
}

// judge generates one case and returns its verdict. The spans go through a pipe because the files of many
// cases would fill the disk.
func (c corpus) judge(id string) (*straggler.Verdict, error) {
	cmd := exec.Command(c.python, c.gen, c.cases, "--case", id)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	st, err := readCorpusCase(out)
	_, _ = io.Copy(io.Discard, out) // let the generator finish after a bad line
	if werr := cmd.Wait(); werr != nil {
		return nil, fmt.Errorf("%s --case %s: %w\n%s", c.gen, id, werr, stderr.String())
	}
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", id, err)
	}
	return st.Verdict(), nil
}

// judgeAll judges cases in parallel, one per processor, until the given time. It stops before the test
// deadline because a killed test reports nothing on the cases judged so far.
func (c corpus) judgeAll(ids []string, until time.Time) (map[string]*straggler.Verdict, error) {
	var mu sync.Mutex
	said := make(map[string]*straggler.Verdict, len(ids))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, id := range ids {
		g.Go(func() error {
			if !until.IsZero() && time.Now().After(until) {
				return nil
			}
			v, err := c.judge(id)
			mu.Lock()
			defer mu.Unlock()
			said[id] = v
			return err
		})
	}
	return said, g.Wait()
}

func scoreCorpus(t *testing.T, c corpus) {
	ids, cases, err := c.read()
	if err != nil {
		t.Fatal(err)
	}
	var until time.Time
	if deadline, ok := t.Deadline(); ok {
		until = deadline.Add(-time.Until(deadline) / 10)
	}
	said, err := c.judgeAll(ids, until)
	if err != nil {
		t.Fatal(err)
	}
	if len(said) < len(ids) {
		t.Errorf("%d of %d cases were judged before the time was up, want all: give go test a longer -timeout", len(said), len(ids))
		var some []json.RawMessage
		for _, id := range ids {
			if said[id] != nil {
				some = append(some, cases[id])
			}
		}
		data, err := json.Marshal(map[string]any{"format": 1, "cases": some})
		if err != nil {
			t.Fatal(err)
		}
		c.cases = filepath.Join(t.TempDir(), "cases.json")
		if err := os.WriteFile(c.cases, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	verdicts := map[string]any{}
	for id, v := range said {
		out := map[string]any{"kind": wordOf(&v.Finding), "ranks": v.Ranks, "suspects": v.Suspects, "reason": v.Reason}
		if v.Cause != "" {
			out["cause"] = v.Cause
		}
		if v.Kind != finding.Fine && v.Kind != finding.Unknown {
			out["from_step"] = v.FromStep
			if v.SegmentGain > 0 {
				out["slowdown"] = v.SegmentGain
			} else if v.Gain > 0 {
				out["slowdown"] = v.Gain
			}
		}
		verdicts[id] = out
	}
	data, err := json.Marshal(verdicts)
	if err != nil {
		t.Fatal(err)
	}
	answers := filepath.Join(t.TempDir(), "verdicts.json")
	if err := os.WriteFile(answers, data, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(c.python, c.gen, c.cases, "--score", answers).CombinedOutput()
	if err != nil {
		t.Fatalf("%s --score: %v\n%s", c.gen, err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, l := range lines[:len(lines)-1] {
		id, _, _ := strings.Cut(l, " ")
		sentence := ""
		if v := said[id]; v != nil {
			sentence = v.Sentence
		}
		t.Logf("%-60s | %s", l, sentence)
	}
	totals := map[string]int{}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &totals); err != nil {
		t.Fatalf("the scorer's last line %q: %v", lines[len(lines)-1], err)
	}
	t.Logf("%d cases: %s", len(said), lines[len(lines)-1])
	if totals["wrong_blame"] > 0 || totals["false_alarm"] > 0 {
		t.Errorf("wrong blame %d, false alarms %d: want none", totals["wrong_blame"], totals["false_alarm"])
	}
	if bad := len(said) - totals["right"] - totals["abstained"]; 30*bad > len(said) {
		t.Errorf("%d of %d cases are neither right nor a correct abstention, want at most a thirtieth", bad, len(said))
	}
}

// wordOf returns the corpus word for a finding. The corpus distinguishes single steps from most steps, and
// checkpoints from other work.
func wordOf(f *finding.Finding) string {
	switch f.Kind {
	case finding.Fine:
		return "healthy"
	case finding.SlowRanks:
		switch {
		case f.Cause == straggler.Checkpoint.String():
			return "checkpoint_stall"
		case f.Pattern == "single_steps":
			return "intermittent_straggler"
		}
		return "straggler"
	case finding.Imbalance:
		if f.Cause == "work" {
			return "uneven_work"
		}
		return "rotating_stalls"
	case finding.InputSlow:
		return "input_bound"
	case finding.SlowTransfer:
		return "slow_communication"
	case finding.Drift:
		return "slowdown_all"
	case finding.Hang:
		return "rank_lost"
	}
	return "insufficient_evidence"
}
