package simjob

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func files(t *testing.T, j *Job) map[string][]byte {
	t.Helper()
	dir := t.TempDir()
	if _, err := j.Write(dir); err != nil {
		t.Fatal(err)
	}
	paths, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(paths) != j.processes() {
		t.Fatalf("%d files, want %d, one of each process", len(paths), j.processes())
	}
	out := map[string][]byte{}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(p)] = b
	}
	return out
}

func TestSameSeedSameBytes(t *testing.T) {
	for i, f := range Families() {
		if testing.Short() && i%3 != 0 {
			continue
		}
		a, b, other := files(t, Draw(7, f)), files(t, Draw(7, f)), files(t, Draw(8, f))
		same := len(a) == len(other)
		for name, text := range a {
			if !bytes.Equal(text, b[name]) {
				t.Errorf("%s: %s differs", f, name)
			}
			same = same && bytes.Equal(text, other[name])
		}
		if same {
			t.Errorf("%s: another seed gives the same job, want another one", f)
		}
	}
}

func TestEachLayoutFinishes(t *testing.T) {
	for _, layout := range Layouts {
		for _, ranks := range []int{2, 4, 8, 16} {
			j := &Job{Layout: layout, Ranks: ranks, Steps: 12, Seed: 3, Save: 5}
			res := j.Run()
			if len(res.Ends) != 12 || res.Waiting < 0 || res.Waiting > 0.6 {
				t.Errorf("%s of %d: %d steps, waiting %.3f; want 12, 0 to 0.6", layout, ranks, len(res.Ends), res.Waiting)
			}
			for s := 1; s < len(res.Ends); s++ {
				if d := res.Ends[s] - res.Ends[s-1]; d < 100_000 || d > 400_000 && layout != PP {
					t.Errorf("%s of %d: step %d takes %d µs, want 100000 to 400000 (pipelines: more)", layout, ranks, s, d)
				}
			}
			for r, spans := range res.Spans {
				for i, s := range spans {
					if s.End < s.Start || s.Parent >= i || s.Parent >= 0 && (spans[s.Parent].Start > s.Start || spans[s.Parent].End < s.End) {
						t.Fatalf("%s: rank %d, span %d: %+v, want it to end after its start, inside its parent", layout, r, i, s)
					}
				}
			}
			if g := j.Gain(func(*Fault) bool { return true }); g != 1 {
				t.Errorf("%s of %d: gain without faults is %g, want 1", layout, ranks, g)
			}
		}
	}
}

// The usual step is 191 ms, and 16 ms of transfer: 207.
func TestGainByHand(t *testing.T) {
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-12 {
			t.Errorf("%s: %v, not %v", what, got, want)
		}
	}
	j := &Job{Layout: DP, Ranks: 3, Steps: 5, Noise: None, Faults: []Fault{
		{What: Slow, Ranks: []int{1}, Phase: Forward, Add: 23},
		{What: Slow, Ranks: []int{2}, Phase: Backward, Add: 10, Pattern: Alternating},
	}}
	// Steps 1 to 4 take 230 ms; rank 2 alone would make two of them 217.
	near("both", j.GainOf(1, 2), 920.0/828)
	near("rank 1", j.GainOf(1), 920.0/(828+20))
	near("rank 2", j.GainOf(2), 1)
	if tr := j.Truth(); tr.Kind != "slow_ranks" || len(tr.Ranks) != 2 {
		t.Errorf("Truth() = %+v, want two slow ranks", tr)
	}
	// Rank 0 waits 23 ms in each, rank 2 in steps 1 and 3 only 13.
	near("waiting", j.Run().Waiting, (4*23+2*23+2*13)/3.0/920)

	j = &Job{Layout: DP, Ranks: 4, Steps: 3, Noise: None, Faults: []Fault{{What: Imbalance, Phase: Backward, Add: 40}}}
	near("imbalance", j.Gain(func(*Fault) bool { return true }), 247.0/217)
	near("even", j.Even(), 247.0/217)

	// Two stages idle for a forward and a backward of a micro-batch (43.5 ms) and
	// during the messages.
	j = &Job{Layout: PP, Ranks: 2, Steps: 4, Noise: None}
	res := j.Run()
	if w := res.Waiting * float64(res.Time()) / 3000; w < 43.5 || w > 44.5 {
		t.Errorf("pipeline bubble is %.2f ms, want 43.5 to 44.5", w)
	}

	j = &Job{Layout: DP, Ranks: 2, Steps: 3, Noise: None, Faults: []Fault{{What: Link, Factor: 2}}}
	near("link", j.Gain(func(*Fault) bool { return true }), 223.0/207)
}

func TestClocksChangeNoDuration(t *testing.T) {
	one := Draw(5, "single")
	two := *one
	two.Offset = func(rank int) int64 { return int64(rank-1) * 86400_000000 }
	res := one.Run()
	for r := range one.Ranks {
		q := two.process(res, r)
		for i, x := range res.Spans[r] {
			y := q.spans[firstSpan+i]
			if x.End-x.Start != y.End-y.Start || y.Start != epoch+x.Start+two.Offset(r) {
				t.Fatalf("rank %d: %+v with true clocks, %+v with others, want the same length, shifted by the clock", r, x, y)
			}
		}
	}
	two.Drift = func(int) float64 { return 200 }
	if show := two.clock(0); show(5_000_000)-show(0) != 5_001_000 {
		t.Errorf("200 ppm make %d us of 5 s, want 5,001,000", show(5_000_000)-show(0))
	}
}

func TestRepairLeavesTheOthersAlone(t *testing.T) {
	j := Draw(11, "single")
	culprit := j.Faults[0].Ranks[0]
	healthy := *j
	healthy.Faults = nil
	for r := range j.Ranks {
		for s := range j.Steps {
			for _, phase := range []string{Input, Forward, Backward, Optimizer, Host} {
				a, b := j.took(r, s, phase, 0, usual[phase], 1), healthy.took(r, s, phase, 0, usual[phase], 1)
				if r != culprit && a != b || a < b {
					t.Fatalf("rank %d step %d %s: %d µs with the fault, %d without; want a change of the culprit only", r, s, phase, a, b)
				}
			}
		}
	}
}

func TestHangAndKill(t *testing.T) {
	j := &Job{Layout: DP, Ranks: 3, Steps: 9, Noise: None, Faults: []Fault{{What: Hang, Ranks: []int{1}, Phase: Backward, From: 6, Watchdog: 4000}}}
	res := j.Run()
	open := func(res *Result, rank int) string {
		var names []string
		for _, s := range res.Spans[rank] {
			if s.End == Open {
				names = append(names, s.Name)
			}
		}
		return strings.Join(names, " ")
	}
	if a, b := open(res, 1), open(res, 0); a != "train.iteration backward" || b != "train.iteration all_reduce" {
		t.Errorf("open spans %q, %q; want backward of rank 1, all_reduce of rank 0, in a step", a, b)
	}
	last := res.Spans[0][len(res.Spans[0])-1].Start
	if len(res.Ends) != 6 || res.Killed != last+4_000_000 {
		t.Errorf("%d steps, killed at %d, all had come at %d; want 6, killed 4 s later", len(res.Ends), res.Killed, last)
	}
	j.Faults = []Fault{{What: Kill, From: 6}}
	if res = j.Run(); len(res.Ends) != 6 || open(res, 0) != open(res, 2) || open(res, 0) == "" {
		t.Errorf("killed: %d steps, open spans %q; want 6, the same of the other ranks", len(res.Ends), open(res, 0))
	}
}

func TestDeadlockIsNamed(t *testing.T) {
	defer func() {
		if s, _ := recover().(string); !strings.Contains(s, "rank 0 thread 1 at {world") {
			t.Errorf("it says %q, want \"rank 0 thread 1 at {world\" in it", s)
		}
	}()
	e := (&Job{Layout: DP, Ranks: 2, Steps: 3, Noise: None}).engine()
	e.lanes[1].ops = e.lanes[1].ops[:4]
	e.run()
	e.mustFinish()
}
