package account_test

import (
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/job"
)

// A loop without a recorded first iteration undoes nothing.
func TestUnknownBeginIsNoRollback(t *testing.T) {
	var j timeline
	j.process(0, 1, 0, 40, 40)
	app := j.span(0, "application", 0, 40)
	first := j.loop(app, 0, 0, 20)
	for i := range int64(4) {
		j.step(first, i, float64(5*i), float64(5*i+5))
	}
	second := j.loop(app, job.Unknown, 20, 40)
	for i := range 4 {
		j.step(second, job.Unknown, float64(20+5*i), float64(25+5*i))
	}
	rep := j.report(account.Query{})
	if len(rep.Disruptions) != 0 || rep.Categories[account.LostWork] != 0 {
		t.Errorf("disruptions %+v, categories %+v; want no lost work", rep.Disruptions, rep.Categories)
	}
}

// The flags have the right kinds, ranks and values.
func TestFlags(t *testing.T) {
	first := func(j *timeline) {
		j.process(0, 1, 0, 10, 10)
		j.step(j.loop(j.span(0, "application", 0, 10), job.Unknown, 0, 10), job.Unknown, 0, 10)
	}
	for _, c := range []struct {
		name   string
		build  func(*timeline)
		expect int
		flags  []account.Flag // of that kind
		ranks  []int          // missing ranks
		kind   account.FlagKind
	}{
		{name: "nothing came before the first loop: nothing is lost", build: first, kind: account.LostWorkUnknown},
		{name: "a second loop may have undone something", build: func(j *timeline) {
			j.process(0, 1, 0, 20, 20)
			app := j.span(0, "application", 0, 20)
			for i := range 2 {
				at := float64(10 * i)
				j.step(j.loop(app, job.Unknown, at, at+10), job.Unknown, at, at+10)
			}
		}, kind: account.LostWorkUnknown, flags: []account.Flag{{Kind: account.LostWorkUnknown, Attempt: 1}}},
		{name: "ranks from 0 to one less than all are missing", build: first, expect: 3, kind: account.MissingRank,
			flags: []account.Flag{{Kind: account.MissingRank, Rank: 1, Count: 1}}, ranks: []int{1, 2}}, // and one more
		{name: "all came", build: first, expect: 1, kind: account.MissingRank},
		{name: "no end, with signs of life", build: func(j *timeline) { j.process(0, 1, 0, -1, 10) }, kind: account.NoHeartbeat},
		{name: "an end, without", build: func(j *timeline) { j.silent(0, 10) }, kind: account.NoHeartbeat},
		{name: "no end, without", build: func(j *timeline) { j.silent(0, -1) }, kind: account.NoHeartbeat,
			flags: []account.Flag{{Kind: account.NoHeartbeat, Attempt: 1}}},
	} {
		var j timeline
		c.build(&j)
		j.ledger.Expect(c.expect)
		rep := j.report(account.Query{})
		var got []account.Flag
		for _, f := range rep.Flags {
			if f.Kind == c.kind {
				got = append(got, f)
			}
		}
		if !slices.Equal(got, c.flags) || !slices.Equal(rep.Missing, c.ranks) {
			t.Errorf("%s: %+v, want %+v; missing are %v", c.name, got, c.flags, rep.Missing)
		}
	}
}

// silent is a process without heartbeats.
func (j *timeline) silent(start, end float64) {
	j.flush()
	p := account.Process{Attempt: 1, Start: ns(start), End: job.NoEnd, LastSeen: ns(start + 10)}
	if end >= 0 {
		p.End = ns(end)
	}
	j.b = account.NewBuilder(p)
	j.span(0, "application", start, end)
}

// An attempt without a usual time takes it from the other attempts of its rank or, if they
// have none, from the other ranks.
func TestUsualTimeOfOthers(t *testing.T) {
	var j timeline
	j.process(0, 1, 0, 14, 14)
	loop := j.loop(j.span(0, "application", 0, 14), 0, 0, 14)
	for i := range int64(7) {
		j.step(loop, i, float64(2*i), float64(2*i+2))
	}
	j.process(1, 1, 0, 9, 9)
	j.step(j.loop(j.span(0, "application", 0, 9), 0, 0, 9), 0, 0, 9)
	rep := j.report(account.Query{To: ns(14)})
	want(t, "rank 1", rep.Ranks[1].Categories, account.Totals{account.Productive: 2 * sec, account.Warmup: 7 * sec, account.Absent: 5 * sec})
}

// Compute time that begins when a step ends belongs to the next step, so a long first
// forward pass is not warm-up of the step before it.
func TestComputingAtTheEndOfAStep(t *testing.T) {
	var j timeline
	j.process(0, 1, 0, 100, 100)
	app := j.span(0, "application", 0, 100)
	at := 0.0
	for i := range 8 {
		lasts := 1.0
		if i == 1 {
			lasts = 9 // the first step with a known begin
		}
		j.span(app, "model_forward", at, at+lasts)
		j.span(app, "optimizer_update", at+lasts, at+lasts+1)
		at += lasts + 1
	}
	rep := j.report(account.Query{To: ns(at)})
	want(t, "steps of the optimizer", rep.Categories, account.Totals{account.Productive: 24 * sec})
	if it := rep.Iterations; it.Kept != 8 || it.AtRiskTime != 23*sec { // without the compute time before the first step
		t.Errorf("iterations %+v, want 8 kept, 23 s at risk", it)
	}
}

// A span inside of a span that blocks training does not take its priority: a concurrent
// span of a lower kind gets the time.
func TestSpanInsideABlockingSpan(t *testing.T) {
	j := &timeline{}
	j.process(0, 1, 0, 10, 10)
	app := j.span(0, "application", 0, 10)
	save := j.span(app, "checkpoint_save_sync", 1, 9)
	j.span(app, "tokenize", 2, 8)
	j.span(save, "data_loading", 3, 5)
	want(t, "inside", j.report(account.Query{}).Categories, account.Totals{
		account.CheckpointSave: ns(6), "custom.tokenize": ns(2), account.Other: ns(2),
	})
}

// Ledger.Iterations returns the finished iterations of the lowest rank that has any, with
// their numbers, or with indexes if a number is missing.
func TestIterationsOfAnAttempt(t *testing.T) {
	var j timeline
	j.process(0, 1, 0, 40, 40)
	j.span(0, "application", 0, 40)
	for rank := 1; rank < 3; rank++ {
		j.process(rank, 1, 0, 40, 40)
		loop := j.loop(j.span(0, "application", 0, 40), 7, 0, 40)
		for i := range int64(3) {
			j.step(loop, 7+i, float64(10*i), float64(10*i+5))
		}
		j.step(loop, 10, 30, -1)
	}
	j.process(0, 2, 50, 90, 90)
	loop := j.loop(j.span(0, "application", 50, 90), job.Unknown, 50, 90)
	for i := range 3 {
		j.step(loop, job.Unknown, float64(50+10*i), float64(55+10*i))
	}
	j.process(0, 3, 100, 140, 140)
	loop = j.loop(j.span(0, "application", 100, 140), job.Unknown, 100, 140)
	for i, number := range []int64{20, job.Unknown, 21} { // one alone
		j.step(loop, number, float64(100+10*i), float64(105+10*i))
	}
	j.flush()
	for attempt, first := range map[int]int64{1: 7, 2: 0, 3: 0} {
		its := j.ledger.Iterations(attempt)
		if len(its) != 3 || its[0].First != first || its[2].Last != first+2 || its[2].End-its[1].End != ns(10) {
			t.Errorf("attempt %d: iterations %+v, want three from step %d, the last 10 ns long", attempt, its, first)
		}
	}
	if its := j.ledger.Iterations(4); its != nil {
		t.Errorf("Iterations(4) = %+v, want nil: there is no such attempt", its)
	}
}
