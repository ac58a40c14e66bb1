package account_test

import (
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/account"
)

// TestMissingEnds checks that a span without an end that must have ended when the
// next one began does not last until the end of the process.
func TestMissingEnds(t *testing.T) {
	var j timeline
	j.process(0, 1, 0, 30, 30)
	app := j.span(0, "application", 0, 30)
	j.span(app, "distributed_code_initialization", 0, -1)
	j.span(app, "model_initialization", 4, -1)
	loop := j.loop(app, 0, 10, 30)
	j.step(loop, 0, 10, 15)
	j.step(loop, 1, 15, -1)
	j.step(loop, 2, 20, 25)
	j.step(loop, 3, 25, 30)
	rep := j.report(account.Query{})
	want(t, "sum", rep.Categories, account.Totals{account.Init: 10 * sec, account.Productive: 15 * sec, account.LostWork: 5 * sec})
	if f := flag(rep, account.MissingEnds); f == nil || f.Value != 3 {
		t.Errorf("flags %+v, want missing_ends of 3", rep.Flags)
	}
}

func TestClockSkew(t *testing.T) {
	var j timeline
	j.process(0, 1, 0, -1, 50)
	j.step(j.loop(j.span(0, "application", 0, -1), 0, 0, -1), 0, 0, 50)
	j.process(0, 2, 40, 80, 80)
	j.step(j.loop(j.span(0, "application", 40, 80), 1, 40, 80), 1, 40, 80)
	rep := j.report(account.Query{})
	if rep.Wall != 80*sec || rep.Categories.Sum() != 80*sec {
		t.Errorf("wall %d, categories sum to %d; want %d for both", rep.Wall, rep.Categories.Sum(), 80*sec)
	}
	if f := flag(rep, account.ClockSkew); f == nil || f.Value != 10*sec || f.Attempt != 2 {
		t.Errorf("flags %+v, want clock_skew of 10 s in attempt 2", rep.Flags)
	}
}

// A process whose recorded end is before its first span has no time. Other processes keep
// their time, and its stored timeline can be read.
func TestEndBeforeItsStart(t *testing.T) {
	var j timeline
	j.process(0, 1, 1, 41, 41)
	j.step(j.loop(j.span(0, "application", 1, 41), 0, 1, 41), 0, 1, 41)
	j.process(1, 1, 30, 20, 20)
	j.span(0, "application", 30, -1)
	packed, err := j.b.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	var stored account.Builder
	if err := stored.UnmarshalBinary(packed); err != nil {
		t.Error(err)
	}
	j.b = &stored
	rep := j.report(account.Query{})
	if rep.Wall != 40*sec || len(rep.Ranks) != 1 || rep.Ranks[0].Categories[account.Productive] != 40*sec {
		t.Errorf("wall %d, ranks %+v; want one rank with %d ns, all productive", rep.Wall, rep.Ranks, 40*sec)
	}
}

// The usual time at a moment comes from the iterations that had ended by then.
func TestUsualTimeAsOf(t *testing.T) {
	var j timeline
	j.process(0, 1, 0, 100, 100)
	loop := j.loop(j.span(0, "application", 0, 100), 0, 0, 100)
	for i, end := range []float64{10, 20, 30, 100} {
		j.step(loop, int64(i), []float64{0, 10, 20, 30}[i], end)
	}
	for asOf, counted := range map[float64]int64{29: 0, 30: 2, 99: 2, 100: 3} { // the first iteration does not count, and a single one is not enough
		rep := j.report(account.Query{To: ns(asOf), AsOf: ns(asOf)})
		f, unknown := flag(rep, account.Provisional), flag(rep, account.WarmupUnknown) != nil
		if unknown != (counted == 0) || (f != nil) != (counted == 2) || f != nil && f.Value != counted {
			t.Errorf("as of %v: flags %+v, want %d iterations counted: provisional if 2, warmup_unknown if 0", asOf, rep.Flags, counted)
		}
	}
}

func TestFlagsOfAnUnfinishedRun(t *testing.T) {
	var j timeline
	j.process(1, 1, 0, -1, 100)
	loop := j.loop(j.span(0, "application", 0, -1), 0, 0, -1)
	j.step(loop, 0, 0, 1)
	j.step(loop, 1, 1, 2)
	j.step(loop, 2, 2, 3)
	j.step(loop, 3, 3, 4)
	j.step(loop, 4, 4, 100)
	j.ledger.Expect(2)
	rep := j.report(account.Query{})
	for _, w := range []account.Flag{
		{Kind: account.LongIteration, Rank: 1, Attempt: 1, Value: 4},
		{Kind: account.MissingRank, Rank: 0},
		{Kind: account.NoEnd, Rank: 1, Attempt: 1},
	} {
		if !slices.Contains(rep.Flags, w) {
			t.Errorf("flags %+v, want %+v among them", rep.Flags, w)
		}
	}
	if flag(rep, account.NoHeartbeat) != nil || flag(rep, account.TwoWriters) != nil {
		t.Errorf("flags %+v, want neither no_heartbeat nor two_writers", rep.Flags)
	}
}

func TestTwoWriters(t *testing.T) {
	make := func(order ...float64) *account.Report {
		var j timeline
		for _, end := range order {
			j.id = 0
			j.process(0, 1, 0, end, end)
			j.step(j.loop(j.span(0, "application", 0, end), 0, 0, end), 0, 0, end)
		}
		return j.report(account.Query{})
	}
	for _, order := range [][]float64{{10, 20}, {20, 10}, {20, 20, 10, 10, 20}} {
		rep := make(order...)
		if rep.Wall != 20*sec || rep.Categories[account.Productive] != 20*sec {
			t.Errorf("%v: wall %d, want %d, all productive", order, rep.Wall, 20*sec)
		}
		if f := flag(rep, account.TwoWriters); f == nil || f.Value != 1 {
			t.Errorf("%v: flags %+v, want two_writers of 1", order, rep.Flags)
		}
	}
	if f := flag(make(10, 10), account.TwoWriters); f != nil {
		t.Error("got the flag two_writers for one timeline given twice, want none")
	}
}
