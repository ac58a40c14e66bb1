package account_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/spans"
)

const sec = 1_000_000_000

// timeline builds small ledgers, one process after the other, with times in seconds.
type timeline struct {
	ledger account.Ledger
	b      *account.Builder
	id     uint64
}

func (j *timeline) process(rank, attempt int, start, end, seen float64) {
	j.flush()
	p := account.Process{Rank: rank, Attempt: attempt, Start: ns(start), End: job.NoEnd, LastSeen: ns(seen), Heartbeats: true}
	if end >= 0 {
		p.End = ns(end)
	}
	j.b = account.NewBuilder(p)
}

func (j *timeline) flush() {
	if j.b != nil {
		if err := j.ledger.Add(j.b); err != nil {
			panic(err)
		}
		j.b = nil
	}
}

func (j *timeline) report(q account.Query) *account.Report {
	j.flush()
	return j.ledger.Report(q)
}

func ns(s float64) int64 { return int64(math.Round(s * sec)) }

// span adds a span and returns its id. A negative end means that it has no end.
func (j *timeline) span(parent uint64, name string, start, end float64, change ...func(*job.Span)) uint64 {
	j.id++
	s := job.Span{ID: j.id, Parent: parent, Name: name, Start: ns(start), End: job.NoEnd, Step: job.Unknown, First: job.Unknown}
	if end >= 0 {
		s.End = ns(end)
	}
	for _, c := range change {
		c(&s)
	}
	s.SetName(s.Cat, s.Name)
	j.b.Span(&s)
	return s.ID
}

func (j *timeline) step(loop uint64, n int64, start, end float64) uint64 {
	return j.span(loop, "training_single_iteration", start, end, func(s *job.Span) { s.Step = n })
}

func (j *timeline) loop(app uint64, first int64, start, end float64) uint64 {
	return j.span(app, "training_loop", start, end, func(s *job.Span) { s.First = first })
}

func want(t *testing.T, what string, have, want account.Totals) {
	t.Helper()
	for c, v := range have {
		if want[c] != v {
			t.Errorf("%s %s: %.3f s, want %.3f", what, c, float64(v)/sec, float64(want[c])/sec)
		}
	}
	for c, v := range want {
		if _, ok := have[c]; !ok && v != 0 {
			t.Errorf("%s %s is missing, want %.3f s", what, c, float64(v)/sec)
		}
	}
}

func flag(rep *account.Report, k account.FlagKind) *account.Flag {
	if i := slices.IndexFunc(rep.Flags, func(f account.Flag) bool { return f.Kind == k }); i >= 0 {
		return &rep.Flags[i]
	}
	return nil
}

// A single step besides the first does not give a usual time: it may be incomplete.
func TestWarmupNeedsTwoMore(t *testing.T) {
	for more, w := range map[int]account.Totals{
		0: {account.Productive: ns(9)},
		1: {account.Productive: ns(10)},
		2: {account.Productive: ns(3), account.Warmup: ns(8)},
	} {
		j := &timeline{}
		j.process(0, 1, 0, float64(9+more), float64(9+more))
		at := 0.0
		for i := range more + 1 {
			end := at + 1
			if i == 0 {
				end = 9
			}
			j.step(0, int64(i), at, end)
			at = end
		}
		rep := j.report(account.Query{})
		want(t, fmt.Sprint(more, " more"), rep.Categories, w)
		if unknown := flag(rep, account.WarmupUnknown) != nil; unknown != (more < 2) {
			t.Errorf("%d more steps: flags %+v, want warmup_unknown only below 2", more, rep.Flags)
		}
	}
}

// Compilation is warm-up at any time, and not part of the usual time of an
// iteration.
func TestCompiling(t *testing.T) {
	j := &timeline{}
	j.process(0, 1, 0, 40, 40)
	app := j.span(0, "application", 0, 40)
	lp := j.loop(app, 0, 1, 40)
	compile := func(parent uint64, name, cat string, start, end float64) {
		j.span(parent, name, start, end, func(s *job.Span) { s.Cat = cat })
	}
	first := j.step(lp, 0, 1, 13) // 7 s of compilation, 1 s of other warm-up
	compile(first, "graph_compile", "compile", 1, 8)
	for i := range int64(3) {
		j.step(lp, 1+i, 13+4*float64(i), 17+4*float64(i))
	}
	again := j.step(lp, 4, 25, 32) // a batch of another shape
	compile(again, "graph_compile", "", 25, 28)
	compile(lp, "autotune", "compile", 32, 34)
	j.step(lp, 5, 34, 38)
	want(t, "compiling", j.report(account.Query{}).Categories, account.Totals{
		account.Warmup: ns(7 + 1 + 3 + 2), account.Productive: ns(6 * 4), account.Other: ns(1 + 2),
	})
}

// TestDisruptionCost is the worked example of docs/explain/goodput.md.
func TestDisruptionCost(t *testing.T) {
	s := readScenario(t, "testdata/scenarios/49_all_at_once.json")
	rep := s.ledger().Report(account.Query{})
	if len(rep.Disruptions) != 1 {
		t.Fatalf("%d disruptions, want 1", len(rep.Disruptions))
	}
	d := rep.Disruptions[0]
	have := []int64{int64(d.Iterations), d.LostWork, d.Stretch, d.Down, d.Init, d.Reload, d.Warmup, d.Total, int64(d.After), int64(d.Next)}
	if w := []int64{14, 27e9, 14e8, 90e9, 25e9, 12e9, 20e9, 1754e8, 1, 2}; !slices.Equal(have, w) {
		t.Errorf("the disruption is %v, want %v", have, w)
	}
	if it := rep.Iterations; it.Kept != 120 || it.Lost != 14 || it.AtRisk != 20 || it.AtRiskTime != 40e9 || it.Saved != 99 || it.Shortest != 2e9 {
		t.Errorf("iterations %+v, want 120 kept, 14 lost, 20 at risk for 40 s, 99 saved, the shortest 2 s", it)
	}
	figures := rep.Figures(account.Basis{Devices: 2, PeakFLOPs: 1e12, ModelFLOPs: 1e12, HardwareFLOPs: 13e11})
	if len(figures) != 12 {
		t.Errorf("%d figures, want 12", len(figures))
	}
	for _, f := range figures {
		w, ok := map[string]float64{
			"goodput": 240 / 559.3, "ettr": 240 / 559.3, "cluster_readiness_ratio": 368.3 / 469.3, "runtime_goodput": 200 / 469.3,
			"step_goodput": 240 / 559.3, "slowdown_seconds": 0, "mttf_seconds": 469.3,
			"young_interval_seconds":        math.Sqrt(2 * 3 * 469.3),
			"availability_interval_seconds": 3 + math.Sqrt(2*(469.3+127)*3+9),
			"mfu":                           0.25, "hfu": 0.325, "useful_flops_ratio": 60 / 559.3,
		}[f.Name]
		if !ok || !f.Known || math.Abs(f.Value-w) > 1e-9 || f.Note == "" {
			t.Errorf("%+v, want %v", f, w)
		}
	}
	for _, f := range rep.Figures(account.Basis{Queue: 559300 * time.Millisecond, Ideal: 1500 * time.Millisecond}) {
		if w, ok := map[string]float64{"step_goodput": 180 / 559.3, "slowdown_seconds": 60}[f.Name]; ok && math.Abs(f.Value-w) > 1e-9 {
			t.Errorf("with an ideal of 1.5 s: %+v, want %v", f, w)
		}
		if f.Name == "ettr" && math.Abs(f.Value-240/559.3/2) > 1e-9 {
			t.Errorf("ettr with as much queue time = %v, want half of 240/559.3", f.Value)
		}
		if f.Name == "mfu" && f.Known {
			t.Error("got MFU without a peak, want none")
		}
	}
}

// A checkpoint that one of the ranks saves takes as long as one that all save together.
func TestTimeOfSaves(t *testing.T) {
	for name, saving := range map[string]int{"all save": 4, "one saves": 1} {
		var j timeline
		for rank := range 4 {
			for attempt, end := range []float64{-1, 400} {
				from := 200 * float64(attempt)
				j.process(rank, attempt+1, from, end, from+200)
				loop := j.loop(j.span(0, "application", from, end), int64(10*attempt), from, end)
				for i := range int64(10) {
					at := from + 20*float64(i)
					j.step(loop, int64(10*attempt)+i, at, at+14)
					if rank < saving {
						j.span(loop, "checkpoint_save_sync", at+14, at+20)
					}
					if rank == 0 {
						j.b.Saved(ns(at+19), int64(10*attempt)+i)
					}
				}
			}
		}
		rep := j.report(account.Query{})
		for _, f := range rep.Figures(account.Basis{}) {
			if f.Name == account.FigureYoung && math.Abs(f.Value-math.Sqrt(2*6*400)) > 1e-9 {
				t.Errorf("%s: %+v, want %v", name, f, math.Sqrt(2*6*400))
			}
		}
	}
}

// A figure without what it is computed from is unknown, and its note has the reason.
func TestUnknownFigures(t *testing.T) {
	s := readScenario(t, "testdata/scenarios/49_all_at_once.json")
	failed := s.ledger().Report(account.Query{})
	silent := s.ledger().Report(account.Query{})
	silent.Saves = 0
	var j timeline
	j.process(0, 1, 0, 10, 10)
	j.span(0, "application", 0, 10)
	for name, c := range map[string]struct {
		rep     *account.Report
		basis   account.Basis
		unknown []string
	}{
		"all are given":  {failed, account.Basis{Devices: 2, PeakFLOPs: 1e12, ModelFLOPs: 1e12, HardwareFLOPs: 1e12}, nil},
		"saves in spans": {silent, account.Basis{Devices: 2, PeakFLOPs: 1e12, ModelFLOPs: 1e12, HardwareFLOPs: 1e12, Saves: 3}, nil},
		"no saves":       {silent, account.Basis{Devices: 2, PeakFLOPs: 1e12, ModelFLOPs: 1e12, HardwareFLOPs: 1e12}, []string{"young_interval_seconds", "availability_interval_seconds"}},
		"no peak":        {failed, account.Basis{Devices: 2, ModelFLOPs: 1e12, HardwareFLOPs: 1e12}, []string{"mfu", "hfu", "useful_flops_ratio"}},
		"no model FLOPs": {failed, account.Basis{Devices: 2, PeakFLOPs: 1e12, HardwareFLOPs: 1e12}, []string{"mfu", "useful_flops_ratio"}},
		"no FLOPs":       {failed, account.Basis{Devices: 2, PeakFLOPs: 1e12}, []string{"mfu", "useful_flops_ratio", "hfu"}},
		"no iteration and no failure": {j.report(account.Query{}), account.Basis{Devices: 2, PeakFLOPs: 1e12, HardwareFLOPs: 1e12}, []string{
			"runtime_goodput", "step_goodput", "slowdown_seconds", "mttf_seconds", "young_interval_seconds", "availability_interval_seconds", "mfu", "useful_flops_ratio", "hfu",
		}},
	} {
		var got []string
		figures := c.rep.Figures(c.basis)
		for _, f := range figures {
			if !f.Known {
				got = append(got, f.Name)
				if !strings.HasPrefix(f.Note, "unknown: ") || f.Value != 0 {
					t.Errorf("%s: %+v, want value 0 and a reason", name, f)
				}
			}
		}
		if len(figures) != 12 || !slices.Equal(got, c.unknown) {
			t.Errorf("%s: %q of %d figures are unknown, want %q of 12", name, got, len(figures), c.unknown)
		}
	}
}

// The shortest iteration is the shortest one with a length above 0.
func TestShortestIteration(t *testing.T) {
	var j timeline
	j.process(0, 1, 0, 30, 30)
	lp := j.loop(j.span(0, "application", 0, 30), 0, 0, 30)
	at := 0.0
	for i, took := range []float64{9, 4, 0, 5, 0} {
		j.step(lp, int64(i), at, at+took)
		at += took
	}
	if it := j.report(account.Query{}).Iterations; it.Kept != 5 || it.Shortest != 4*sec {
		t.Errorf("iterations %+v, want 5 kept, the shortest 4 s", it)
	}
}

func TestRollbackInOneProcess(t *testing.T) {
	var j timeline
	j.process(0, 1, 0, 100, 100)
	app := j.span(0, "application", 0, 100)
	first := j.loop(app, 0, 0, 50)
	for i := range int64(10) {
		j.step(first, i, float64(5*i), float64(5*i+5))
	}
	second := j.loop(app, 6, 50, 100)
	for i := range int64(10) {
		j.step(second, 6+i, float64(50+5*i), float64(55+5*i))
	}
	rep := j.report(account.Query{})
	want(t, "rollback", rep.Categories, account.Totals{account.Productive: 80 * sec, account.LostWork: 20 * sec})
	if len(rep.Disruptions) != 1 || rep.Disruptions[0].Iterations != 4 || rep.Disruptions[0].LostWork != 20*sec || rep.Disruptions[0].Total != 20*sec {
		t.Errorf("disruptions %+v, want one with 4 steps lost, 20 s in all", rep.Disruptions)
	}
}

// TestLoopOfEachEpoch: a program with a training loop for each epoch, whose steps begin again with the same number,
// loses nothing, and the collectives of its ranks match.
func TestLoopOfEachEpoch(t *testing.T) {
	for _, first := range []int64{0, 1} {
		var j timeline
		for rank := range 2 {
			j.process(rank, 1, 0, 90, 90)
			app := j.span(0, "application", 0, 90)
			for epoch := range 3 {
				begin := 30 * float64(epoch)
				loop := j.loop(app, -1, begin, begin+30)
				for i := range int64(3) {
					at := begin + 10*float64(i)
					work := 8 - 4*float64(rank)
					step := j.step(loop, first+i, at, at+10)
					j.span(step, "model_forward", at, at+work)
					j.span(step, "all_reduce", at+work, at+10, func(s *job.Span) { s.Cat = "comm" })
				}
			}
		}
		rep := j.report(account.Query{})
		want(t, fmt.Sprintf("steps from %d", first), rep.Categories, account.Totals{account.Productive: 180 * sec})
		if p := rep.ProductiveParts; p[account.WaitInStep] != 36*sec || rep.Unmatched != 0 || rep.Iterations.Kept != 9 || len(rep.Disruptions) > 0 {
			t.Errorf("steps from %d: parts %v, %d ns unmatched, %+v, %+v; want 36 s of waits in 9 steps, all kept", first, p, rep.Unmatched, rep.Iterations, rep.Disruptions)
		}
		if f := flag(rep, account.LostWorkUnknown); f != nil {
			t.Errorf("steps from %d: flag %+v, want none: the steps go on", first, f)
		}
	}
}

// If a program with a training loop for each epoch is started again, no record has the step at which it resumed.
func TestLoopOfEachEpochStartedAgain(t *testing.T) {
	for second := range 3 { // loops of the second attempt
		var j timeline
		for attempt, loops := range []int{2, second + 1} {
			from := 100 * float64(attempt)
			end := from + 30*float64(loops)
			j.process(0, attempt+1, from, end, end)
			app := j.span(0, "application", from, end)
			for epoch := range loops {
				begin := from + 30*float64(epoch)
				loop := j.loop(app, -1, begin, begin+30)
				for i := range int64(3) {
					j.step(loop, 1+i, begin+10*float64(i), begin+10*float64(i+1))
				}
			}
		}
		rep := j.report(account.Query{})
		want(t, "started again", rep.Categories, account.Totals{account.Productive: int64(90+30*second) * sec, account.Downtime: 40 * sec})
		if flag(rep, account.LostWorkUnknown) == nil {
			t.Errorf("flags %+v, want %s", rep.Flags, account.LostWorkUnknown)
		}
	}
}

// TestLocalSteps checks a program that counts steps from 0 in each attempt: its loop
// or its checkpoint determines the lost work, and without both no work is lost.
func TestLocalSteps(t *testing.T) {
	build := func(first, load int64) *account.Report {
		var j timeline
		j.process(0, 1, 0, -1, 50)
		loop := j.loop(j.span(0, "application", 0, -1), 0, 0, -1)
		for i := range int64(10) {
			j.step(loop, i, float64(5*i), float64(5*i+5))
		}
		j.process(0, 2, 60, 90, 90)
		app := j.span(0, "application", 60, 90)
		if load >= 0 {
			j.span(app, "checkpoint_load", 60, 60, func(s *job.Span) { s.Step = load })
		}
		loop = j.loop(app, first, 60, 90)
		for i := range int64(6) {
			j.step(loop, i, float64(60+5*i), float64(65+5*i))
		}
		return j.report(account.Query{})
	}
	for name, c := range map[string]struct {
		first, load  int64
		lost         int64
		local, known bool
		inferred     int64 // the first iteration of the second loop, if it is not recorded; -1 if it is or is unknown
	}{
		"loop says":       {8, -1, 10, true, true, -1},
		"checkpoint says": {-1, 7, 15, true, true, 7},
		"from the start":  {0, -1, 50, false, true, -1},
		"nobody says":     {-1, -1, 0, false, false, -1},
	} {
		rep := build(c.first, c.load)
		if rep.Categories[account.LostWork] != c.lost*sec {
			t.Errorf("%s: %d s lost, want %d", name, rep.Categories[account.LostWork]/sec, c.lost)
		}
		if (flag(rep, account.LocalSteps) != nil) != c.local || (flag(rep, account.LostWorkUnknown) == nil) != c.known {
			t.Errorf("%s: flags %+v, want local_steps: %v, lost_work_unknown: %v", name, rep.Flags, c.local, !c.known)
		}
		inferred := int64(-1)
		if f := flag(rep, account.ResumeInferred); f != nil {
			inferred = f.Value
		}
		if inferred != c.inferred {
			t.Errorf("%s: the first iteration is inferred to be %d, want %d", name, inferred, c.inferred)
		}
		if rep.Categories.Sum() != 90*sec {
			t.Errorf("%s: %d ns in all, want %d", name, rep.Categories.Sum(), 90*sec)
		}
	}
}

func TestConcurrentLeaves(t *testing.T) {
	var j timeline
	j.process(0, 1, 0, 60, 60)
	app := j.span(0, "application", 0, 60)
	loop := j.loop(app, 0, 0, 60)
	step := j.step(loop, 0, 0, 30)
	j.span(step, "model_forward", 0, 10)
	j.span(step, "data_loading", 10, 12)    // waits inside the iteration
	j.span(loop, "data_loading", 15, 20)    // prefetch in the background
	j.span(loop, "validation_loop", 22, 25) // blocks the iteration
	j.span(step, "checkpoint_save_async", 24, 26)
	j.span(step, "all_reduce", 27, 29, func(s *job.Span) { s.Cat = "comm" })
	read := j.span(loop, "data_loading", 40, 45)
	j.span(read, "read", 41, 44, func(s *job.Span) { s.Cat = "POSIX" })
	j.span(app, "upload", 42, 50, func(s *job.Span) { s.Background = true })
	j.span(loop, "audit", 50, 60)
	j.span(loop, "audit", 55, 58)
	rep := j.report(account.Query{})
	want(t, "sum", rep.Categories, account.Totals{
		account.Productive: 24 * sec, account.DataWait: 7 * sec, account.Validation: 2 * sec, account.CheckpointSave: 2 * sec,
		account.Category("custom.audit"): 10 * sec, account.Other: 15 * sec,
	})
	want(t, "overlapped", rep.Overlapped, account.Totals{
		account.Productive: 2 * sec, account.DataWait: 5 * sec, account.Validation: 1 * sec,
		account.Category("custom.upload"): 8 * sec, account.Category("custom.audit"): 3 * sec,
	})
}

// TestThreads checks that spans on other threads than the training loop never win.
func TestThreads(t *testing.T) {
	var j timeline
	on := func(thread int64) func(*job.Span) { return func(s *job.Span) { s.Thread = thread } }
	j.process(0, 1, 0, 10, 10)
	app := j.span(0, "application", 0, 10, on(1))
	loop := j.span(app, "training_loop", 0, 10, on(2))
	j.span(loop, "training_single_iteration", 0, 10, on(2))
	upload := j.span(app, "upload", 2, 6, on(3))
	j.span(upload, "compress", 3, 4)
	rep := j.report(account.Query{})
	want(t, "sum", rep.Categories, account.Totals{account.Productive: 10 * sec})
	want(t, "overlapped", rep.Overlapped, account.Totals{"custom.upload": 3 * sec, "custom.compress": sec})
}

// TestRowsOfAnImport checks an imported profile, which has the loop, the steps, and
// forward and backward on different rows.
func TestRowsOfAnImport(t *testing.T) {
	on := func(cat string, thread int64) func(*job.Span) {
		return func(s *job.Span) { s.Cat, s.Thread = cat, thread }
	}
	for _, profiled := range []bool{true, false} {
		var j timeline
		j.process(0, 1, 0, 10, 10)
		j.span(0, "train", 0, 10, on("pipeline", 100))
		for i := range 5 {
			at := float64(2 * i)
			if profiled {
				j.span(0, fmt.Sprintf("ProfilerStep#%d", 3+i), at, at+2, on("pipeline", 1))
			}
			j.span(0, "forward", at, at+1, on("compute", 101))
			j.span(0, "backward", at+1, at+1.5, on("compute", 102))
			j.span(0, "step", at+1.5, at+2, on("compute", 1))
		}
		rep := j.report(account.Query{})
		want(t, fmt.Sprintf("profiled %v", profiled), rep.Categories, account.Totals{account.Productive: 10 * sec})
		if rep.Iterations.Kept != 5 {
			t.Errorf("profiled %v: iterations %+v, want 5 kept", profiled, rep.Iterations)
		}
	}
}

// TestRanksComeAndGo checks a rank that joins late, one that is not restarted, and
// one that ends before the others.
func TestRanksComeAndGo(t *testing.T) {
	var j timeline
	j.process(0, 1, 0, -1, 40)
	j.span(0, "application", 0, -1)
	j.process(0, 2, 60, 100, 100)
	j.span(0, "application", 60, 100)
	j.process(1, 1, 5, -1, 42)
	j.span(0, "application", 5, -1)
	j.process(2, 2, 61, 90, 90)
	j.span(0, "application", 61, 90)
	rep := j.report(account.Query{To: ns(110), AsOf: ns(110)})
	for rank, w := range []account.Totals{
		{account.Other: 80 * sec, account.Downtime: 20 * sec, account.Unobserved: 10 * sec},
		{account.Absent: 45 * sec, account.Other: 37 * sec, account.Downtime: 18 * sec, account.Unobserved: 10 * sec},
		{account.Absent: 71 * sec, account.Other: 29 * sec, account.Unobserved: 10 * sec},
	} {
		want(t, "rank", rep.Ranks[rank].Categories, w)
	}
	// The restart costs the rank that did not come back as much as the ledger has.
	if d := rep.Disruptions; len(d) != 1 || d[0].After != 1 || d[0].Next != 2 || d[0].Down != 38*sec {
		t.Errorf("got disruptions %+v, want one after attempt 1 with %d ns down", d, 38*sec)
	}
}

// TestRankSkipsAnAttempt: a rank that takes part in the first and the third attempt counts for the two restarts of the
// job. It is down until the others start again and absent after that. Its lost steps belong to the first restart.
func TestRankSkipsAnAttempt(t *testing.T) {
	var j timeline
	attempt := func(rank, number int, first, end int64, start float64) {
		j.process(rank, number, start, -1, start+2+float64(end-first))
		app := j.span(0, "application", start, -1)
		j.span(app, "model_initialization", start, start+2)
		loop := j.loop(app, first, start+2, -1)
		for i := first; i < end; i++ {
			at := start + 2 + float64(i-first)
			j.step(loop, i, at, at+1)
		}
	}
	attempt(0, 1, 0, 10, 0)
	attempt(0, 2, 6, 20, 20)
	attempt(0, 3, 18, 30, 50)
	attempt(1, 1, 0, 10, 0)
	attempt(1, 3, 18, 30, 51)
	attempt(2, 1, 0, 10, 0)
	rep := j.report(account.Query{})
	if d := rep.Disruptions; len(d) != 2 || d[0].After != 1 || d[0].Next != 2 || d[1].After != 2 || d[1].Next != 3 {
		t.Fatalf("got disruptions %+v, want 1 to 2 and 2 to 3", d)
	}
	first, second := rep.Disruptions[0], rep.Disruptions[1]
	if first.Iterations != 4 || second.Iterations != 2 || first.LostWork+first.Warmup+first.Stall != 12*sec || second.LostWork != 2*sec {
		t.Errorf("lost %d and %d iterations, want 4 and 2: %+v", first.Iterations, second.Iterations, rep.Disruptions)
	}
	if first.Down != 3*8*sec || second.Down != 14*sec || first.Init != 2*sec || second.Init != 4*sec {
		t.Errorf("got disruptions %+v, want %d and %d ns down and %d and %d ns of initialization", rep.Disruptions, 3*8*sec, 14*sec, 2*sec, 4*sec)
	}
	for rank, w := range []account.Totals{
		{account.Downtime: (8 + 14) * sec},
		{account.Downtime: 8 * sec, account.Absent: 31 * sec},
		{account.Downtime: 8 * sec, account.Absent: 45 * sec},
	} {
		for _, c := range []account.Category{account.Downtime, account.Absent} {
			if got := rep.Ranks[rank].Categories[c]; got != w[c] {
				t.Errorf("rank %d %s: %.3f s, want %.3f", rank, c, float64(got)/sec, float64(w[c])/sec)
			}
		}
	}
}

// TestEveryStandardSpan checks that each standard span has the right category under
// both of its names, and is not counted as a custom span.
func TestEveryStandardSpan(t *testing.T) {
	want := map[string]account.Category{
		"application": account.Other, "training_loop": account.Other, "epoch": account.Other,
		"checkpoint_load": account.CheckpointLoad, "data_loading": account.DataWait, "model_initialization": account.Init,
		"training_single_iteration": account.Productive, "model_forward": account.Productive, "zero_grad": account.Productive,
		"model_backward": account.Productive, "optimizer_update": account.Productive,
		"validation_loop": account.Validation, "validation_single_iteration": account.Validation,
		"testing_loop": account.Testing, "TESTING_SINGLE_ITERATION": account.Testing,
		"distributed_code_initialization": account.Init, "data_loader_initialization": account.Init, "optimizer_initialization": account.Init,
		"checkpoint_save_sync": account.CheckpointSave, "checkpoint_save_async": account.CheckpointSave, "checkpoint_save_finalization": account.CheckpointSave,
	}
	for _, info := range spans.All() {
		if info.Category == "startup" {
			want[info.Name] = account.Category("startup." + info.Event)
		}
		var j timeline
		j.process(0, 1, 0, 10, 10)
		j.span(0, info.Name, 0, 10)
		rep := j.report(account.Query{})
		if w := want[info.Name]; w == "" || rep.Categories[w] != 10*sec {
			t.Errorf("%s: %v, want %s", info.Name, rep.Categories, w)
		}
	}
	for name, w := range map[[2]string]account.Category{
		{"comm", "all_reduce"}: account.Productive, {"data", "preprocess"}: account.DataWait, {"dataloader", "fetch"}: account.DataWait,
		{"checkpoint", "restart.block"}: account.CheckpointLoad, {"checkpoint", "capture.x"}: account.CheckpointSave,
		{"pipeline", "evaluate.block"}: account.Validation, {"pipeline", "test.block"}: account.Testing, {"pipeline", "epoch"}: account.Other,
		{"compute", "other.init"}: account.Init, {"POSIX", "read"}: account.Other, {"app", "audit"}: "custom.audit",
	} {
		var j timeline
		j.process(0, 1, 0, 10, 10)
		j.span(0, name[1], 0, 10, func(s *job.Span) { s.Cat = name[0] })
		if rep := j.report(account.Query{}); rep.Categories[w] != 10*sec {
			t.Errorf("%v: %v, want %s", name, rep.Categories, w)
		}
	}
}

// TestLayersAndFrames has spans of a program's own around the steps, in a pass through the model, and in a step
// outside of the passes. Only the last has a category of its own.
func TestLayersAndFrames(t *testing.T) {
	var j timeline
	j.process(0, 0, 0, 20, 20)
	fit := j.span(0, "fit", 0, 20)
	for n := range int64(2) {
		at := 1 + 8*float64(n)
		step := j.step(fit, n, at, at+8)
		forward := j.span(step, "model_forward", at, at+4)
		j.span(forward, "layer 3", at+1, at+3)
		j.span(step, "tokenize", at+5, at+7)
	}
	r := j.report(account.Query{})
	want(t, "a frame, layers and a span of its own", r.Categories, account.Totals{account.Productive: 12 * sec, "custom.tokenize": 4 * sec, account.Other: 4 * sec})
	if got := r.ProductiveParts[account.Compute]; got != 8*sec {
		t.Errorf("got %d ns of compute, want %d", got, 8*sec)
	}
}

// TestWordForSteps checks that a span with a word for a step keeps its name in the account if it is no step.
func TestWordForSteps(t *testing.T) {
	j := &timeline{}
	j.process(0, 1, 1, 20, 20)
	loop := j.loop(j.span(0, "application", 1, 20), 0, 1, 20)
	j.span(loop, "step", 2, 5, func(s *job.Span) { s.Cat = "mine" })
	j.step(loop, 0, 6, 10)
	var l account.Ledger
	mustAdd(&l, j.b)
	if got, want := l.Report(account.Query{}).Categories["custom.step"], ns(3); got != want {
		t.Errorf("the span “step” takes %d ns, want %d", got, want)
	}
}

// In files without parents, a span gets the time from its start on, also if it outlasts the span around it.
func TestSpanOutlastsTheOneAround(t *testing.T) {
	nested := func(thread int64) func(*job.Span) {
		return func(s *job.Span) { s.Nested, s.Thread = true, thread }
	}
	for name, c := range map[string]struct {
		start, end float64
		thread     int64
		want       account.Totals
	}{
		"inside":            {2, 4, 1, account.Totals{account.Validation: ns(4), "custom.audit": ns(2), account.Other: ns(4)}},
		"outlasts":          {2, 8, 1, account.Totals{account.Validation: ns(2), "custom.audit": ns(6), account.Other: ns(2)}},
		"on another thread": {2, 8, 2, account.Totals{account.Validation: ns(6), "custom.audit": ns(2), account.Other: ns(2)}},
	} {
		var j timeline
		j.process(0, 1, 0, 10, 10)
		j.span(0, "validation_loop", 0, 6, nested(1))
		j.span(0, "audit", c.start, c.end, nested(c.thread))
		want(t, name, j.report(account.Query{}).Categories, c.want)
	}
}

// rowIDs is a reader that keeps the ids of the rows.
type rowIDs []uint64

func (*rowIDs) Begin(*account.Spans)   {}
func (r *rowIDs) Row(row *account.Row) { *r = append(*r, row.ID) }
func (*rowIDs) End() error             { return nil }

// Readers get all rows of a process, also those after its end.
func TestReadersGetAllRows(t *testing.T) {
	for name, open := range map[string]func(*job.Process, account.Reader) job.Sink{
		"with a ledger": func(p *job.Process, to account.Reader) job.Sink { s, _ := account.OpenSink(p, nil, to); return s },
		"alone":         account.OpenRows,
	} {
		var got rowIDs
		to := open(&job.Process{Start: ns(1), End: ns(10), LastSeen: ns(10)}, &got)
		for i, start := range []float64{12, 2, 4, 11} {
			s := job.Span{ID: uint64(i + 1), Start: ns(start), End: ns(start + 1), Step: int64(i), First: job.Unknown}
			s.SetName("", spans.TrainingIteration)
			to.Span(&s)
		}
		if err := to.Close(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if want := (rowIDs{2, 3, 4, 1}); !slices.Equal(got, want) {
			t.Errorf("%s: rows %v, want %v", name, got, want)
		}
	}
}
