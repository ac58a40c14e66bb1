package machine_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/machine"
	"github.com/trainspan/trainspan/internal/job"
)

// drawn is a job in which rank 1 is late.
type drawn struct {
	ranks, seconds int
	late           func(rank, second int) float64                 // share of the time
	value          func(rank, second int) map[job.Measure]float64 // of the process
	system         func(second int) map[job.Measure]float64
	gpu            func(rank, second int) map[job.Measure]float64
}

const origin = int64(1_800_000_000e9)

// make returns the ranks: ten steps a second, samples each second, clocks that
// differ by a day.
func (d *drawn) make(rng *rand.Rand) (out []machine.Rank) {
	rows := func(skew int64, of func(second int) map[job.Measure]float64) (rows []job.Sample) {
		if of == nil {
			return nil
		}
		for s := range d.seconds + 1 {
			row := job.Sample{At: origin + skew + int64(s)*1e9}
			for m := range row.Values {
				row.Values[m] = float32(math.NaN())
			}
			for m, v := range of(max(s-1, 0)) {
				row.Values[m] = float32(v * (1 + 0.1*rng.NormFloat64()))
			}
			rows = append(rows, row)
		}
		return rows
	}
	for r := range d.ranks {
		skew := int64(r) * 86400e9
		k := machine.Rank{Rank: r, Host: "node-a"}
		for i := range 10 * d.seconds {
			k.Starts = append(k.Starts, origin+skew+int64(i)*1e8)
			k.Excess = append(k.Excess, 1e8*(d.late(r, i/10)+0.02*rng.NormFloat64()))
		}
		k.Starts = append(k.Starts, origin+skew+int64(d.seconds)*1e9)
		if d.value != nil {
			k.Own = rows(skew, func(s int) map[job.Measure]float64 { return d.value(r, s) })
		}
		if d.gpu != nil {
			k.GPU = rows(skew, func(s int) map[job.Measure]float64 { return d.gpu(r, s) })
		}
		k.System = rows(skew, d.system)
		out = append(out, k)
	}
	return out
}

type values = map[job.Measure]float64

// always is late for the whole run; sometimes is late in every other period of
// ten seconds.
func always(rank, _ int) float64 {
	if rank == 1 {
		return 0.4
	}
	return 0
}

func sometimes(rank, second int) float64 {
	if second/10%2 == 0 {
		return 0
	}
	return always(rank, second)
}

func TestJudge(t *testing.T) {
	onRank1 := func(high, low values) func(int, int) values {
		return func(rank, _ int) values {
			if rank == 1 {
				return high
			}
			return low
		}
	}
	quiet := values{job.RunDelay: 0.02, job.MajorFaults: 0, job.AllowedCores: 2}
	waits := onRank1(values{job.RunDelay: 0.4, job.AllowedCores: 1}, quiet)
	for name, c := range map[string]struct {
		d          drawn
		cause      string // of rank 1; empty: none
		overloaded bool
	}{
		"a shared processor":          {drawn{late: always, value: waits}, machine.CauseProcessor, false},
		"a limit":                     {drawn{late: always, value: onRank1(values{job.RunDelay: 0.5, job.Throttled: 0.9, job.CoreLimit: 0.3}, quiet)}, machine.CauseLimit, false},
		"a limit that seldom holds":   {drawn{late: always, value: onRank1(values{job.RunDelay: 0.5, job.Throttled: 0.1, job.CoreLimit: 3}, quiet)}, machine.CauseProcessor, false},
		"blocks":                      {drawn{late: always, value: onRank1(values{job.RunDelay: 0.02, job.IODelay: 0.35}, values{job.RunDelay: 0.02, job.IODelay: 0.01})}, machine.CauseIO, false},
		"page faults":                 {drawn{late: always, value: onRank1(values{job.RunDelay: 0.02, job.MajorFaults: 900}, quiet)}, machine.CauseFaults, false},
		"a slow clock":                {drawn{late: always, value: onRank1(quiet, quiet), gpu: onRank1(values{job.Clock: 1000, job.ClockMax: 1980, job.Slowed: 1}, values{job.Clock: 1900, job.ClockMax: 1980, job.Slowed: 0})}, machine.CauseClock, false},
		"in some stretches":           {drawn{late: sometimes, value: func(rank, s int) values { return values{job.RunDelay: 0.02 + sometimes(rank, s)} }}, machine.CauseProcessor, false},
		"evidence that does not stop": {drawn{late: sometimes, value: waits}, "none", false},
		"evidence elsewhere":          {drawn{late: always, value: func(rank, _ int) values { return values{job.RunDelay: 0.02 + always(1-rank, 0)} }}, "none", false},
		"evidence of all ranks":       {drawn{late: always, value: onRank1(values{job.RunDelay: 0.4}, values{job.RunDelay: 0.4})}, "none", false},
		"too little":                  {drawn{late: always, value: onRank1(values{job.RunDelay: 0.12}, quiet)}, "none", false},
		"too few faults":              {drawn{late: always, value: onRank1(values{job.RunDelay: 0.02, job.MajorFaults: 3}, quiet)}, "none", false},
		"too short":                   {drawn{seconds: 6, late: always, value: waits}, "none", false},
		"nothing":                     {drawn{late: always, value: onRank1(quiet, quiet)}, "none", false},
		"overloaded": {drawn{late: always, value: onRank1(values{job.RunDelay: 0.4}, values{job.RunDelay: 0.35}),
			system: func(int) values { return values{job.Runnable: 9, job.OnlineCores: 2} }}, "none", true},
		"overloaded, and a rank more than others": {drawn{late: always, value: onRank1(values{job.RunDelay: 0.6}, values{job.RunDelay: 0.2}),
			system: func(int) values { return values{job.Runnable: 9, job.OnlineCores: 2} }}, machine.CauseProcessor, true},
		"busy, and nobody waits": {drawn{late: always, value: onRank1(quiet, quiet), system: func(int) values { return values{job.Runnable: 9, job.OnlineCores: 2} }}, "none", false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ranks := range []int{2, 8} {
				d := c.d
				if d.ranks = ranks; d.seconds == 0 {
					d.seconds = 120
				}
				f := machine.Judge(d.make(rand.New(rand.NewPCG(1, 2))), []int{1})
				got := "none"
				if len(f.Causes) > 0 {
					got = f.Causes[0].Cause
				}
				if got != c.cause || (len(f.NoCause) == 1) != (c.cause == "none" && name != "too short") || (len(f.Overloaded) > 0) != c.overloaded {
					t.Errorf("of %d ranks got %+v, want %s, overloaded %v", ranks, f, c.cause, c.overloaded)
				}
			}
		})
	}
	alone := (&drawn{ranks: 2, seconds: 120, late: always, value: onRank1(quiet, quiet)}).make(rand.New(rand.NewPCG(1, 2)))
	alone[0].Own = nil
	if f := machine.Judge(alone, []int{1}); len(f.NoCause) > 0 {
		t.Errorf("without samples of other ranks Judge() = %+v, want no rank without a cause: it was not compared", f)
	}
	if f := machine.Judge((&drawn{ranks: 2, seconds: 60, late: always}).make(rand.New(rand.NewPCG(1, 2))), []int{1}); f != nil {
		t.Errorf("without samples Judge() = %+v, want nil", f)
	}
}

// TestPermuted checks that no cause is named with the evidence of other ranks
// or times.
func TestPermuted(t *testing.T) {
	const draws = 400
	rng := rand.New(rand.NewPCG(3, 4))
	for name, c := range map[string]struct {
		ranks   int
		late    func(int, int) float64
		permute func(ranks []machine.Rank, rng *rand.Rand)
		measure job.Measure
	}{
		"ranks, a shared processor, 2":   {2, always, overRanks, job.RunDelay},
		"ranks, a shared processor, 8":   {8, always, overRanks, job.RunDelay},
		"ranks, page faults":             {4, always, overRanks, job.MajorFaults},
		"moments, in some stretches":     {2, sometimes, overTime, job.RunDelay},
		"moments, 8 ranks":               {8, sometimes, overTime, job.RunDelay},
		"ranks and moments, page faults": {4, sometimes, func(r []machine.Rank, rng *rand.Rand) { overTime(r, rng); overRanks(r, rng) }, job.MajorFaults},
	} {
		t.Run(name, func(t *testing.T) {
			scale := 1.0
			if c.measure == job.MajorFaults {
				scale = 1000
			}
			d := drawn{ranks: c.ranks, seconds: 120, late: c.late, value: func(rank, s int) values { return values{c.measure: scale * (0.02 + c.late(rank, s))} }}
			if f := machine.Judge(d.make(rng), []int{1}); len(f.Causes) != 1 {
				t.Fatalf("as it was got %+v, want a cause", f)
			}
			named := 0
			for range draws {
				ranks := d.make(rng)
				c.permute(ranks, rng)
				named += len(machine.Judge(ranks, []int{1}).Causes)
			}
			if named > 0 {
				t.Errorf("a cause was named with permuted evidence in %d of %d draws, want none", named, draws)
			}
		})
	}
}

// overRanks moves the samples of each period of four seconds to other ranks.
func overRanks(ranks []machine.Rank, rng *rand.Rand) {
	for from := 0; from < len(ranks[0].Own); from += 4 {
		order := rng.Perm(len(ranks))
		for i := from; i < min(from+4, len(ranks[0].Own)); i++ {
			was := make([][job.Measures]float32, len(ranks))
			for r := range ranks {
				was[r] = ranks[r].Own[i].Values
			}
			for r := range ranks {
				ranks[r].Own[i].Values = was[order[r]]
			}
		}
	}
}

// overTime moves the samples of the ranks to other times, the same for all.
func overTime(ranks []machine.Rank, rng *rand.Rand) {
	order := rng.Perm(len(ranks[0].Own))
	for r := range ranks {
		was := append([]job.Sample(nil), ranks[r].Own...)
		for i, k := range order {
			ranks[r].Own[i].Values = was[k].Values
		}
	}
}

// TestOrder checks that the result depends neither on the clocks nor on the
// order of ranks.
func TestOrder(t *testing.T) {
	d := drawn{ranks: 4, seconds: 60, late: always, value: func(rank, s int) values { return values{job.RunDelay: 0.02 + always(rank, s)} }}
	ranks := d.make(rand.New(rand.NewPCG(5, 6)))
	want := machine.Judge(ranks, []int{1})
	ranks[0], ranks[3] = ranks[3], ranks[0]
	if got := machine.Judge(ranks, []int{1}); !reflect.DeepEqual(got.Causes, want.Causes) {
		t.Errorf("in another order got %+v, want %+v", got.Causes, want.Causes)
	}
}
