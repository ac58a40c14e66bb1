package compare_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/compare"
	"github.com/trainspan/trainspan/internal/analyze/profile"
)

// steady returns a run with little noise around ms.
func steady(name string, seed uint64, ms float64, n int) *compare.Run {
	rng := rand.New(rand.NewPCG(seed, 9))
	r := &compare.Run{Name: name, WorldSize: 8, Phases: map[string][]float64{}}
	for range n {
		r.Periods = append(r.Periods, ms*1e6*math.Exp(0.005*rng.NormFloat64()))
		r.Phases["forward"] = append(r.Phases["forward"], 70e6*math.Exp(0.01*rng.NormFloat64()))
		r.Phases["input"] = append(r.Phases["input"], 5e6*math.Exp(0.1*rng.NormFloat64()))
		r.Phases["optimizer"] = append(r.Phases["optimizer"], 10e6*math.Exp(0.1*rng.NormFloat64()))
	}
	return r
}

func TestKindsAndExitCodes(t *testing.T) {
	base := steady("base", 1, 250, 200)
	tests := []struct {
		name string
		next *compare.Run
		opt  *compare.Options
		kind compare.Kind
		exit int
	}{
		{"itself", base, nil, compare.NoDifference, 0},
		{"another of the same", steady("new", 2, 250, 200), nil, compare.NoDifference, 0},
		{"5 % slower", steady("new", 3, 262.5, 200), nil, compare.Slower, 3},
		{"5 % slower, 10 % allowed", steady("new", 3, 262.5, 200), &compare.Options{FailOver: 0.1}, compare.Slower, 0},
		{"5 % faster", steady("new", 4, 237.5, 200), nil, compare.Faster, 0},
		{"2 % slower with a wide margin", steady("new", 5, 255, 200), &compare.Options{Margin: 0.05}, compare.NoDifference, 0},
		{"too few steps", steady("new", 6, 250, 39), nil, compare.NotComparable, 4},
		{"no steps", &compare.Run{Name: "new"}, nil, compare.NotComparable, 4},
		{"another world size", func() *compare.Run { r := steady("new", 7, 250, 200); r.WorldSize = 16; return r }(), nil, compare.NotComparable, 4},
		{"a rank is missing", func() *compare.Run { r := steady("new", 7, 250, 200); r.Missing = []int{3}; return r }(), nil, compare.NotComparable, 4},
		{"another phase", func() *compare.Run {
			r := steady("new", 7, 250, 200)
			r.Phases["checkpoint"] = r.Periods
			return r
		}(), nil, compare.NotComparable, 4},
		{"a period of zero", func() *compare.Run { r := steady("new", 7, 250, 200); r.Periods[100] = 0; return r }(), nil, compare.NotComparable, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := compareRuns(base, tt.next, tt.opt)
			if r.Kind != tt.kind || r.ExitCode() != tt.exit {
				t.Errorf("got %s, exit code %d; want %s, %d: %s", r.Kind, r.ExitCode(), tt.kind, tt.exit, r.Sentence)
			}
			if (r.Kind == compare.NotComparable) != (len(r.Reasons) > 0) {
				t.Errorf("kind %s with reasons %q, want reasons only if the runs cannot be compared", r.Kind, r.Reasons)
			}
			if _, err := json.Marshal(r); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPausesAreSeenByTheMean(t *testing.T) {
	a, b := steady("base", 1, 250, 400), steady("new", 2, 250, 400)
	for s := 5; s < 400; s += 10 {
		b.Periods[s] += 250e6
	}
	r := compareRuns(a, b, nil)
	if r.Kind != compare.Slower || math.Abs(r.Median.Change) > 0.01 || math.Abs(r.Mean.Change-0.1) > 0.01 {
		t.Errorf("kind %s, median %s, mean %s; want slower, the median unchanged, the mean 10 %% longer", r.Kind, r.Median, r.Mean)
	}
	if !strings.Contains(r.Sentence, "pauses") {
		t.Errorf("the sentence does not say where the time is: %s, want \"pauses\" in it", r.Sentence)
	}
}

// TestBrief checks that the line at the end of a run has only significant
// changes.
func TestBrief(t *testing.T) {
	base := steady("train.1", 1, 250, 200)
	for name, c := range map[string]struct {
		next *compare.Run
		want string
	}{
		"slower":      {steady("train.2", 2, 270, 200), `^with train\.1: steps are [78]\.\d % slower \(\+[67]\.\d % … \+8\.\d %\)$`},
		"faster":      {steady("train.2", 2, 230, 200), `^with train\.1: steps are [78]\.\d % faster \(-8\.\d % … -7\.\d %\)$`},
		"equal":       {steady("train.2", 2, 250, 200), `^with train\.1: no difference in step time \(-0\.\d % … \+0\.\d %\)$`},
		"too short":   {steady("train.2", 2, 270, 10), `^$`},
		"other ranks": {&compare.Run{Name: "train.2", WorldSize: 4}, `^$`},
	} {
		if got := compareRuns(base, c.next, nil).Brief(); !regexp.MustCompile(c.want).MatchString(got) {
			t.Errorf("%s: got %q, want %s", name, got, c.want)
		}
	}
}

func TestPhasesNameTheChange(t *testing.T) {
	a, b := steady("base", 1, 250, 200), steady("new", 2, 260, 200)
	for s := range b.Phases["forward"] {
		b.Phases["forward"][s] += 10e6
	}
	r := compareRuns(a, b, nil)
	if len(r.Phases) != 3 || r.Phases[0].Phase != "forward" || !r.Phases[0].Sure {
		t.Fatalf("phases %+v, want 3, first forward with a sure change", r.Phases)
	}
	if c := r.Phases[0].Change; math.Abs(c.Change-0.04) > 0.004 || c.Low > 0.04 || c.High < 0.04 {
		t.Errorf("forward changed by %s of a step, want 4 %%", c)
	}
	for _, p := range r.Phases[1:] {
		if p.Sure {
			t.Errorf("phase %s has a sure change (%s), want none", p.Phase, p.Change)
		}
	}
}

func TestASetShowsTheNoiseBetweenRuns(t *testing.T) {
	var base []*compare.Run
	for i, ms := range []float64{245, 250, 255, 248, 252} {
		base = append(base, steady(fmt.Sprint("base", i), uint64(i), ms, 200))
	}
	// 2.5 % slower than the median run: a single pair calls that slower, the set
	// does not.
	next := steady("new", 77, 256.25, 200)
	if k := compareRuns(base[1], next, nil).Kind; k != compare.Slower {
		t.Errorf("one pair: %s, want %s", k, compare.Slower)
	}
	if r := compare.Sides(base, []*compare.Run{next}, nil); r.Kind != compare.Inconclusive || r.ExitCode() != 4 {
		t.Errorf("one run against a set: %s, median %s; want inconclusive and exit code 4", r.Kind, r.Median)
	}
	if r := compare.Sides(base, []*compare.Run{steady("new", 78, 290, 200)}, nil); r.Kind != compare.Slower || r.ExitCode() != 3 {
		t.Errorf("16 %% slower than the set: %s, median %s; want slower and exit code 3", r.Kind, r.Median)
	}
	if r := compare.Sides(nil, []*compare.Run{next}, nil); r.Kind != compare.NotComparable {
		t.Errorf("no base run: %s, want %s", r.Kind, compare.NotComparable)
	}
}

func TestGoodputIsReportedApart(t *testing.T) {
	a, b := steady("base", 1, 250, 200), steady("new", 2, 250, 200)
	a.Goodput, b.Goodput = 0.95, 0.70
	r := compareRuns(a, b, nil)
	if r.Kind != compare.NoDifference || r.Goodput == nil || *r.Goodput != [2]float64{0.95, 0.70} {
		t.Errorf("kind %s, goodput %v; want no difference and 0.95, 0.70", r.Kind, r.Goodput)
	}
}

// TestEvidence checks that the change is named as the cause only with two runs
// on each side, or on the same hosts.
func TestEvidence(t *testing.T) {
	on := func(hosts []string, seed uint64, ms float64) *compare.Run {
		r := steady("run", seed, ms, 200)
		r.Hosts = hosts
		return r
	}
	a, b := []string{"a"}, []string{"b"}
	for _, c := range []struct {
		base, next []*compare.Run
		want, says string
	}{
		{[]*compare.Run{on(a, 1, 250)}, []*compare.Run{on(a, 2, 265)}, "same_hosts", "on the same hosts"},
		{[]*compare.Run{on(a, 1, 250)}, []*compare.Run{on(b, 2, 265)}, "other_hosts", "These runs differ: "},
		{[]*compare.Run{on(a, 1, 250)}, []*compare.Run{on(nil, 2, 265)}, "unknown_hosts", "not on record"},
		{[]*compare.Run{on(a, 1, 250), on(a, 3, 250), on(a, 4, 250), on(a, 5, 250)}, []*compare.Run{on(b, 2, 265)}, "other_hosts", "These runs differ: "},
		{[]*compare.Run{on(a, 1, 250), on(b, 3, 250)}, []*compare.Run{on(a, 2, 265), on([]string{"c"}, 4, 265)}, "two_runs_a_side", "2 runs of one and 2 of the other"},
		{[]*compare.Run{on(a, 1, 250), on(a, 3, 250)}, []*compare.Run{on(b, 2, 265), on(b, 4, 265)}, "other_hosts", "These runs differ: "},
		{[]*compare.Run{on(a, 1, 250), on(a, 3, 250)}, []*compare.Run{on(nil, 2, 265), on(b, 4, 265)}, "two_runs_a_side", "2 runs of one and 2 of the other"},
	} {
		if r := compare.Sides(c.base, c.next, nil); r.Kind != compare.Slower || r.Evidence != c.want || !strings.Contains(r.Sentence, c.says) {
			t.Errorf("%s, %s, want %s: %s", r.Kind, r.Evidence, c.want, r.Sentence)
		}
	}
}

// TestStepsOfUpdates checks that steps with the mean of their group count as one value per group.
func TestStepsOfUpdates(t *testing.T) {
	of := func(steps, groups int, ms float64) *compare.Run {
		r := &compare.Run{Name: "run", WorldSize: 8, Updates: true}
		rng := rand.New(rand.NewPCG(uint64(groups), 1))
		for range groups {
			mean := ms * 1e6 * math.Exp(0.002*rng.NormFloat64())
			for range steps {
				r.Periods = append(r.Periods, mean)
			}
		}
		return r
	}
	run := func(groups int, ms float64) *compare.Run { return of(50, groups, ms) }
	for groups, want := range map[int]compare.Kind{1: compare.Inconclusive, 7: compare.Inconclusive, 40: compare.Slower} {
		r := compareRuns(run(groups, 100), run(groups, 120), nil)
		if r.Kind != want {
			t.Errorf("%d groups: %s, want %s: %s", groups, r.Kind, want, r.Sentence)
		}
		if text := strings.Join(r.Notes, "; "); (want == compare.Inconclusive) != strings.Contains(text, fmt.Sprintf("%d group", groups)) {
			t.Errorf("%d groups: notes %q", groups, text)
		}
	}
	for steps, groups := range map[int]int{1: 300, 2: 150} {
		if r := compareRuns(of(steps, groups, 100), of(steps, groups, 120), nil); r.Kind != compare.Slower {
			t.Errorf("updates each %d steps: %s, want slower: %s", steps, r.Kind, r.Sentence)
		}
	}
	many := compare.Sides([]*compare.Run{run(1, 100), run(1, 100), run(1, 101)}, []*compare.Run{run(1, 120), run(1, 121), run(1, 120)}, nil)
	if many.Kind != compare.Slower {
		t.Errorf("three runs of each: %s, want slower: %s", many.Kind, many.Sentence)
	}
}

// TestWindows checks that windows of steps are not called steps, and that their steps are counted.
func TestWindows(t *testing.T) {
	run := func(n int) *compare.Run {
		r := steady("run", uint64(n), 250, n)
		r.Unit, r.Steps = "windows of 100 steps", 100*n
		return r
	}
	if r := compareRuns(run(30), run(50), nil); len(r.Reasons) != 1 || r.Reasons[0] != "run has 30 windows of 100 steps after its warm-up; at least 40 are needed" {
		t.Errorf("reasons %q", r.Reasons)
	}
	if r := compareRuns(run(60), run(50), nil); r.Steps != [2]int{6000, 5000} {
		t.Errorf("steps %v, want 6000 and 5000: %s", r.Steps, r.Sentence)
	}
}

// TestRarePhases checks that a phase in few steps of one run does not make runs incomparable, and one of its usual steps
// does.
func TestRarePhases(t *testing.T) {
	for name, c := range map[string]struct {
		every int
		want  compare.Kind
	}{"one save": {150, compare.NoDifference}, "each step": {1, compare.NotComparable}} {
		a, b := steady("base", 1, 250, 200), steady("new", 2, 250, 200)
		saves := make([]float64, len(b.Periods))
		for i := c.every - 1; i < len(saves); i += c.every {
			saves[i] = 1e6
		}
		b.Phases["checkpoint"] = saves
		for _, r := range []*compare.Result{compareRuns(a, b, nil), compareRuns(b, a, nil)} {
			if r.Kind != c.want {
				t.Errorf("%s: %s, want %s: %s", name, r.Kind, c.want, r.Sentence)
			}
		}
	}
}

// TestDoubts checks that a comparison says which records are not complete.
func TestDoubts(t *testing.T) {
	a, b := steady("base", 1, 250, 200), steady("new", 2, 250, 200)
	b.Doubts = "40 spans were dropped"
	if r := compareRuns(a, b, nil); !slices.Contains(r.Notes, "new: 40 spans were dropped") {
		t.Errorf("notes %q", r.Notes)
	}
}

// TestPhasesAddUp checks that the milliseconds of a change are those of the phase, also if the runs of a side differ.
func TestPhasesAddUp(t *testing.T) {
	base := []*compare.Run{steady("a", 1, 200, 200), steady("b", 2, 250, 200)}
	next := []*compare.Run{steady("c", 3, 200, 200), steady("d", 4, 250, 200)}
	for _, r := range next {
		for i := range r.Phases["forward"] {
			r.Phases["forward"][i] += 9e6
		}
	}
	r := compare.Sides(base, next, nil)
	i := slices.IndexFunc(r.Phases, func(p compare.PhaseChange) bool { return p.Phase == "forward" })
	p := &r.Phases[i]
	if change, _ := p.Of(); change != fmt.Sprintf("%+.2f ms", p.New-p.Base) {
		t.Errorf("forward: %.2f to %.2f ms, change %s", p.Base, p.New, change)
	}
}

func TestMarkdownIsWellFormed(t *testing.T) {
	a, b := steady("main|1", 1, 250, 200), steady("pr\n<b>`2`\x1b\u202e", 2, 262, 200)
	a.Goodput, b.Goodput = 0.95, 0.9
	md := compareRuns(a, b, nil).Markdown()
	rows := 0
	for l := range strings.Lines(md) {
		if strings.HasPrefix(l, "|") {
			rows++
			if n := strings.Count(strings.ReplaceAll(l, `\|`, ""), "|"); n != 5 {
				t.Errorf("%d bars in table row %q, want 5", n, l)
			}
		}
	}
	if !strings.Contains(md, "| in steps | 95.0 % | 90.0 % | |") {
		t.Errorf("the share in steps has a change, or none is there:\n%s, want \"| in steps | 95.0 %% | 90.0 %% | |\" in it", md)
	}
	if rows != 9 || !strings.HasPrefix(md, "**slower** ") || !strings.Contains(md, "pr·&lt;b>\\`2\\`·· is slower than main\\|1") {
		t.Errorf("Markdown has %d rows, want 9 after a bold \"slower\", with the names escaped:\n%s", rows, md)
	}
}

func ExampleSides() {
	base, next := steady("main", 1, 250, 200), steady("branch", 2, 260, 200)
	r := compareRuns(base, next, &compare.Options{FailOver: 0.03})
	fmt.Println(r.Kind, r.ExitCode())
	// Output: slower 3
}

// TestProfiles checks that profiles are compared as runs, and with few steps by
// their content.
func TestProfiles(t *testing.T) {
	profiled := func(steps int, ms, exposed int64, ops ...profile.Operator) *compare.Run {
		r := steady("profile", uint64(steps), float64(ms), steps)
		r.Profile = &profile.Use{Processes: 1, Device: true, Steps: max(steps, 1), Operators: ops, Kernels: ops[:1]}
		n := int64(r.Profile.Steps) * 1e6
		r.Profile.Time = ms * n
		r.Profile.Parts[profile.Compute], r.Profile.Parts[profile.Communication] = (ms-exposed)*n, exposed*n
		return r
	}
	mm := func(n, ms int64) profile.Operator {
		return profile.Operator{Name: "aten::mm", Count: n, Time: n * ms * 1e6}
	}
	few := compareRuns(profiled(1, 100, 10, mm(1, 50)), profiled(2, 130, 35, mm(2, 55), profile.Operator{Name: "aten::new_op", Count: 2, Time: 4e6}), nil)
	if p := few.Profile; few.Kind != compare.Inconclusive || p == nil || fmt.Sprint(p.Parts[:2]) != "[{exposed_communication 10 35} {compute 90 95}]" ||
		fmt.Sprint(p.Operators) != "[{aten::mm 50 55} {aten::new_op 0 2}]" || fmt.Sprint(p.Kernels) != "[{aten::mm 50 55}]" {
		t.Errorf("few steps: %s: %+v, want inconclusive with communication 10 to 35 and aten::mm 50 to 55", few.Sentence, few.Profile)
	}
	if _, err := json.Marshal(few); err != nil || !strings.Contains(few.Markdown(), "| exposed communication | 10.000 ms | 35.000 ms | +25.000 ms |") {
		t.Errorf("JSON: %v; Markdown: %s\nwant a row of exposed communication, 10 to 35 ms", err, few.Markdown())
	}
	if r := compareRuns(profiled(30, 100, 10, mm(1, 50)), profiled(30, 130, 35, mm(2, 55)), nil); r.Kind != compare.Slower || r.Profile == nil {
		t.Errorf("30 steps each: %s, want slower, with a profile", r.Sentence)
	}
	if r := compareRuns(profiled(30, 100, 10, mm(1, 50)), steady("run", 1, 100, 200), nil); r.Profile != nil || r.Kind != compare.NoDifference {
		t.Errorf("a profile and a run: %s, %+v; want no difference and no profile", r.Sentence, r.Profile)
	}
}

// TestParts checks that the parts add up to the difference of the runs and of
// their steps, also without data by rank.
func TestParts(t *testing.T) {
	a, b := steady("base", 1, 250, 200), steady("new", 2, 275, 150)
	a.Spent = compare.Spent{Wall: 70e9, StartUp: 10e9, Lost: 1e9, StepsRun: 210}
	b.Spent = compare.Spent{Wall: 64e9, StartUp: 12e9, Down: 3e9, StepsRun: 160}
	r := compareRuns(a, b, nil)
	of := map[string]float64{}
	var sum, step float64
	for _, p := range r.Parts {
		of[p.Kind] += *p.Seconds
		sum, step = sum+*p.Seconds, step+p.StepMS
	}
	if r.Difference == nil || *r.Difference != -6 || math.Abs(sum+6) > 1e-9 || math.Abs(step-r.StepMS) > 1e-9 || math.Abs(step-25) > 0.3 {
		t.Errorf("parts sum to %v s and %v ms per step, want -6 s and 25 ms as the difference: %+v", sum, step, of)
	}
	for kind, want := range map[string]float64{"start_up": 2, "lost_work": -1, "downtime": 3, "number_of_steps": -50 * 0.2625, compare.PartInSteps: 185 * 0.025} {
		if math.Abs(of[kind]-want) > 0.06 {
			t.Errorf("%s: %.2f s, want %.2f", kind, of[kind], want)
		}
	}
	b.Spent = compare.Spent{}
	if r := compareRuns(a, b, nil); r.Difference != nil || len(r.Parts) != 1 || r.Parts[0].Seconds != nil {
		t.Errorf("without the length of a run: parts %+v, want one without seconds", r.Parts)
	}
}

// TestWorkOfAPart checks that a part of the host's code has the name of what the program did there.
func TestWorkOfAPart(t *testing.T) {
	for want, p := range map[string]compare.Part{
		"other code":           {Kind: "phase", Phase: "host"},
		"“generate”":           {Kind: "phase", Phase: "host", Work: "“generate”"},
		"“generate” of rank 5": {Kind: "phase", Phase: "host", Work: "“generate”", Ranks: []int{5}},
	} {
		if got := p.Words(); got != want {
			t.Errorf("Words() = %q for %+v, want %q", got, p, want)
		}
		if phase := (&compare.PhaseChange{Phase: p.Phase, Work: p.Work}); len(p.Ranks) == 0 && phase.Name() != want {
			t.Errorf("the name of the phase is %q for %+v, want %q", phase.Name(), p, want)
		}
	}
}

func compareRuns(base, next *compare.Run, opt *compare.Options) *compare.Result {
	return compare.Sides([]*compare.Run{base}, []*compare.Run{next}, opt)
}

// TestSlowerByShareAndTime checks that a slower run is a failure only if it exceeds both the
// share and the time.
func TestSlowerByShareAndTime(t *testing.T) {
	n := noise{name: "run", steps: 300, sd: 0.002}
	rng := rand.New(rand.NewPCG(9, 9))
	base, next := n.run(rng, 1), n.run(rng, 1.05) // 250 ms, and 12.5 ms more
	for _, c := range []struct {
		opt  compare.Options
		want int
		note string
	}{
		{compare.Options{}, 3, ""},
		{compare.Options{FailOver: 0.03}, 3, ""},
		{compare.Options{FailOver: 0.08}, 0, "not a failure: the limit is 8 %"},
		{compare.Options{FailOver: 0.03, Floor: 10}, 3, ""},
		{compare.Options{FailOver: 0.03, Floor: 20}, 0, "not a failure: the limit is 3 % and 20 ms of a step"},
	} {
		r := compare.Sides([]*compare.Run{base}, []*compare.Run{next}, &c.opt)
		if got := r.ExitCode(); got != c.want || c.note != "" && !slices.Contains(r.Notes, c.note) {
			t.Errorf("%+v: status %d with the notes %q, want %d and %q", c.opt, got, r.Notes, c.want, c.note)
		}
	}
}
