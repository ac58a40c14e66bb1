package fromjob_test

import (
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/analyze/straggler/fromjob"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/spans"
)

// TestWorkOfEvaluations: two ranks evaluate for 700 ms after every 20 steps of 20 ms, with data loading and a
// forward pass in it. These are no work of a step: rank 1, whose data loading takes 8 ms longer in each step, is
// late by that alone, and forward takes 12 ms in every step.
func TestWorkOfEvaluations(t *testing.T) {
	c := fromjob.New(nil)
	j := &job.Job{Ranks: 2}
	sinks, at, id := make([]job.Sink, 2), 0.0, uint64(0)
	for r := range sinks {
		p := &job.Process{Rank: r, RankKnown: true, Attempt: 1, Start: 1e18, End: 2e18, LastSeen: 2e18}
		j.Processes = append(j.Processes, p)
		sinks[r] = open(c, p)
	}
	span := func(r int, id uint64, cat, name string, from, to float64, step int64) {
		sp := job.Span{ID: id, Start: 1e18 + int64(from*1e6), End: 1e18 + int64(to*1e6), Step: step, First: job.Unknown, Thread: 1}
		if to == 0 {
			sp.End = job.NoEnd
		}
		sp.SetName(cat, name)
		j.Processes[r].Steps.Add(&sp)
		sinks[r].Span(&sp)
	}
	emit := func(r int, cat, name string, from, to float64, step int64) {
		id++
		span(r, id, cat, name, from, to, step)
	}
	for s := range 100 {
		for r := range sinks {
			in := 2 + 8*float64(r)
			emit(r, "", spans.DataLoading, at, at+in, job.Unknown)
			emit(r, "", spans.ModelForward, at+in, at+in+12, job.Unknown)
			emit(r, "comm", "all_reduce", at+in+12, at+23, job.Unknown)
			emit(r, "", spans.TrainingIteration, at, at+23, int64(s))
		}
		if at += 24; s%20 != 19 {
			continue
		}
		for r := range sinks {
			id++
			evaluation := id
			span(r, evaluation, "pipeline", "evaluate", at, 0, job.Unknown) // recorded while it is open
			emit(r, "", spans.DataLoading, at+1, at+200, job.Unknown)
			emit(r, "", spans.ModelForward, at+200, at+700, job.Unknown)
			span(r, evaluation, "pipeline", "evaluate", at, at+701, job.Unknown)
		}
		at += 702
	}
	for _, s := range sinks {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	v := c.Attempts(j)[0].State.Verdict()
	if v.Kind != finding.SlowRanks || !slices.Equal(v.Ranks, []int{1}) || v.Cause != "input" || len(v.Others) > 0 {
		t.Fatalf("got %s %v %s, others %+v; want %s [1] input, no others: %s", v.Kind, v.Ranks, v.Cause, v.Others, finding.SlowRanks, v.Sentence)
	}
	i := slices.IndexFunc(v.Step, func(p finding.Part) bool { return p.Name == "forward" })
	if i < 0 || v.Step[i].Time != 12e6 {
		t.Errorf("got step %+v, want forward 12 ms", v.Step)
	}
}

// TestEvaluationInTheBackground: a step has its work although an evaluation runs in the background during it, in
// records without threads.
func TestEvaluationInTheBackground(t *testing.T) {
	c := fromjob.New(nil)
	p := &job.Process{RankKnown: true, Attempt: 1, Start: 1e18, End: 2e18, LastSeen: 2e18}
	sink, id := open(c, p), uint64(0)
	span := func(name string, from, to, step int64, background bool) {
		id++
		sp := job.Span{ID: id, Start: 1e18 + from, End: 1e18 + to, Step: step, First: job.Unknown, Background: background}
		sp.SetName("", name)
		p.Steps.Add(&sp)
		sink.Span(&sp)
	}
	for s := range int64(40) {
		at := s * 30e6
		span(spans.ValidationLoop, at+1e6, at+25e6, job.Unknown, true)
		span(spans.ModelForward, at+2e6, at+14e6, job.Unknown, false)
		span(spans.TrainingIteration, at, at+30e6, s, false)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	_, tab := c.Attempts(&job.Job{Ranks: 1, Processes: []*job.Process{p}})[0].State.Judge()
	if tab == nil || tab.Phase(straggler.Forward, 0, 7) != 12e6 {
		t.Fatalf("got %+v, want forward 12 ms in each step", tab)
	}
}

// TestPartsOnOtherLanes: a receiver may put a collective in backward on another lane than the step. It is part of the
// step all the same, through the spans around it, so the ranks wait in it for the one that works longer.
func TestPartsOnOtherLanes(t *testing.T) {
	const lane, other = 7, 7 + tracefile.LaneDistance
	for name, apart := range map[string]bool{"one lane": false, "two lanes": true} {
		c := fromjob.New(nil)
		j := &job.Job{Ranks: 2}
		for r := range 2 {
			p := &job.Process{Rank: r, RankKnown: true, Attempt: 1, Start: 1e18, End: 2e18, LastSeen: 2e18}
			j.Processes = append(j.Processes, p)
			sink, id := open(c, p), uint64(0)
			span := func(parent uint64, cat, name string, from, to, step int64, apart bool) uint64 {
				id++
				sp := job.Span{ID: id, Parent: parent, Start: 1e18 + from, End: 1e18 + to, Step: step, First: job.Unknown, Thread: lane}
				if apart {
					sp.Thread = other
				}
				sp.SetName(cat, name)
				p.Steps.Add(&sp)
				sink.Span(&sp)
				return id
			}
			for s := range int64(60) {
				at := s * 30e6
				step := span(0, "", spans.TrainingIteration, at, at+30e6, s, false)
				span(step, "", spans.ModelForward, at, at+10e6, job.Unknown, false)
				backward := span(step, "", spans.ModelBackward, at+10e6, at+30e6, job.Unknown, apart)
				span(backward, "comm", "all_reduce", at+12e6+int64(r)*10e6, at+25e6, job.Unknown, apart)
			}
			if err := sink.Close(); err != nil {
				t.Fatal(err)
			}
		}
		v, tab := c.Attempts(j)[0].State.Judge()
		for r, want := range []float64{7e6, 17e6} {
			wait, _ := tab.Communication(r, 7)
			if got := tab.Phase(straggler.Backward, r, 7); got != want || wait != 17e6-want {
				t.Errorf("%s: rank %d has %v ns of backward and waits for %v, want %v and %v: %s", name, r, got, wait, want, 17e6-want, v.Sentence)
			}
		}
	}
}

// TestStepTriedAgain: rank 1 fails in the forward pass of step 20 and tries the step again, with the same number. The
// ranks are compared in the same steps before and after it. If both ranks do all work twice, both are steps.
func TestStepTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		whole   bool // the first run is complete, on both ranks
		barrier bool // between the iterations
		steps   int
		wait    float64 // of rank 0 in step 20
	}{"before the collective": {false, false, 40, 12e6}, "after it": {true, false, 41, 0}, "after a barrier": {false, true, 40, 12e6}} {
		col := fromjob.New(nil)
		j := &job.Job{Ranks: 2}
		for r := range 2 {
			p := &job.Process{Rank: r, RankKnown: true, Attempt: 1, Start: 1e18, End: 2e18, LastSeen: 2e18}
			j.Processes = append(j.Processes, p)
			sink, id := open(col, p), uint64(0)
			span := func(cat, name string, from, to, step int64) {
				id++
				sp := job.Span{ID: id, Start: 1e18 + from, End: 1e18 + to, Step: step, First: job.Unknown}
				sp.SetName(cat, name)
				p.Steps.Add(&sp)
				sink.Span(&sp)
			}
			at := int64(0)
			step := func(s int64) {
				span("", spans.TrainingIteration, at, at+30e6, s)
				span("", spans.ModelForward, at, at+20e6, job.Unknown)
				span("comm", "all_reduce", at+20e6, at+30e6, job.Unknown)
				at += 30e6
			}
			for s := range int64(40) {
				if c.barrier {
					span("comm", "barrier", at, at+1e6, job.Unknown)
					at += 1e6
				}
				switch {
				case s == 20 && c.whole:
					step(s)
				case s == 20 && r == 0:
					at += 12e6 // the time of the other's first run
					span("", spans.TrainingIteration, at-12e6, at+30e6, s)
					span("", spans.ModelForward, at-12e6, at+8e6, job.Unknown)
					span("comm", "all_reduce", at+8e6, at+30e6, job.Unknown)
					at += 30e6
					continue
				case s == 20:
					span("", spans.TrainingIteration, at, at+11e6, s)
					span("", spans.ModelForward, at, at+11e6, job.Unknown)
					at += 12e6
				}
				step(s)
			}
			if err := sink.Close(); err != nil {
				t.Fatal(err)
			}
		}
		v, tab := col.Attempts(j)[0].State.Judge()
		if got := int(tab.Steps[len(tab.Steps)-1]) + 1; got != c.steps || v.Coverage.Disputed != 0 {
			t.Errorf("%s: %d steps, %d disputed, want %d", name, got, v.Coverage.Disputed, c.steps)
		}
		for i, step := range tab.Steps {
			want := 0.0
			if step == 20 {
				want = c.wait
			}
			if wait, _ := tab.Communication(0, i); wait != want {
				t.Errorf("%s: rank 0 waits for %v ns in step %d, want %v", name, wait, step, want)
			}
		}
	}
}
