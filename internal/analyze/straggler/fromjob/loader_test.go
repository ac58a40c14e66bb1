package fromjob_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/analyze/straggler/fromjob"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/spans"
)

// loaded returns the verdict on a job of 120 steps whose ranks fetch a batch, compute for 12 ms plus noise,
// and meet. input returns how long a rank waits for the batch of a step, in milliseconds.
func loaded(t *testing.T, ranks int, loader job.Loader, noise float64, input func(rng *rand.Rand, rank, step int) float64) *straggler.Verdict {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 9))
	c := fromjob.New(nil)
	j := &job.Job{Ranks: ranks}
	sinks, at, id := make([]job.Sink, ranks), 0.0, uint64(0)
	for r := range ranks {
		p := &job.Process{Rank: r, RankKnown: true, Attempt: 1, Start: 1e18, End: 2e18, LastSeen: 2e18}
		j.Processes = append(j.Processes, p)
		sinks[r] = open(c, p)
	}
	emit := func(r int, cat, name string, from, to float64, step int64, of job.Loader) {
		id++
		sp := job.Span{ID: id, Start: 1e18 + int64(from*1e6), End: 1e18 + int64(to*1e6), Step: step, First: job.Unknown, Thread: 1, Loader: of}
		sp.SetName(cat, name)
		j.Processes[r].Steps.Add(&sp)
		sinks[r].Span(&sp)
	}
	for r := range ranks {
		emit(r, "dataloader", "fetch.start", 0, 1, job.Unknown, loader)
	}
	for s := range 120 {
		arrive := make([]float64, ranks)
		for r := range ranks {
			in := input(rng, r, s)
			emit(r, "", spans.DataLoading, at, at+in, job.Unknown, 0)
			arrive[r] = at + in + 12 + noise*rng.NormFloat64()
			emit(r, "", spans.ModelForward, at+in, arrive[r], job.Unknown, 0)
		}
		end := slices.Max(arrive) + 1
		for r := range ranks {
			emit(r, "comm", "all_reduce", arrive[r], end, job.Unknown, 0)
			emit(r, "", spans.TrainingIteration, at, end, int64(s), 0)
		}
		at = end
	}
	for _, s := range sinks {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return c.Attempts(j)[0].State.Verdict()
}

// TestLoaders checks which ranks are named if one loader or all are slow, loading on request or ahead of the
// training.
func TestLoaders(t *testing.T) {
	// A batch that is ready takes 2.5 ms to arrive from a worker.
	one := func(slow float64) func(*rand.Rand, int, int) float64 {
		return func(rng *rand.Rand, rank, step int) float64 {
			switch {
			case rank == 1:
				return slow + rng.NormFloat64()
			case step%37 == 9: // a pause
				return 14
			}
			return 2.5 + 0.2*rng.NormFloat64()
		}
	}
	quick := func(rng *rand.Rand, rank, step int) float64 {
		switch {
		case rank == 1:
			return 22 + 0.3*rng.NormFloat64()
		case step == 60:
			return 9
		}
		return 0.19 + 0.01*rng.NormFloat64()
	}
	turns := func(rng *rand.Rand, rank, _ int) float64 {
		if rng.IntN(3) == rank%3 {
			return 2.5
		}
		return 2.5 + 25*rng.Float64()
	}
	for _, tt := range []struct {
		name   string
		ranks  int
		loader job.Loader
		input  func(*rand.Rand, int, int) float64
		kind   finding.Kind
		named  []int
	}{
		{"workers, one is slow", 4, job.LoaderAhead, one(25), finding.SlowRanks, []int{1}},
		{"workers, one of two is slow", 2, job.LoaderAhead, one(25), finding.SlowRanks, []int{1}},
		{"workers, all are slow", 4, job.LoaderAhead, turns, finding.InputSlow, nil},
		{"no workers, one is slow", 4, job.LoaderDirect, quick, finding.SlowRanks, []int{1}},
		{"no workers, one of two is slow", 2, job.LoaderDirect, quick, finding.SlowRanks, []int{1}},
		{"not recorded, one of two is slow, the other paused once", 2, 0, quick, finding.SlowRanks, []int{1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := loaded(t, tt.ranks, tt.loader, 0.2, tt.input)
			if v.Kind != tt.kind || !slices.Equal(v.Ranks, tt.named) {
				t.Errorf("got %s of ranks %v, want %s of %v: %s", v.Kind, v.Ranks, tt.kind, tt.named, v.Sentence)
			}
		})
	}
}

// TestFewLateSteps checks that only the steps in which a rank is late are counted, not those in which its
// usual noise exceeds a small mean.
func TestFewLateSteps(t *testing.T) {
	v := loaded(t, 4, job.LoaderDirect, 2, func(rng *rand.Rand, rank, step int) float64 {
		if rank == 1 && step%15 == 14 { // eight late steps; with four, all on one rank would be chance in one of 64 jobs
			return 140
		}
		return 0.3 + 0.05*rng.NormFloat64()
	})
	if v.Kind != finding.SlowRanks || !slices.Equal(v.Ranks, []int{1}) || v.Evidence == nil {
		t.Fatalf("got %s of ranks %v, want slow ranks [1] with evidence: %s", v.Kind, v.Ranks, v.Sentence)
	}
	if e := v.Evidence; e.Affected != 8 || e.Excess < 125 || e.Excess > 145 {
		t.Errorf("got %d late steps by %.1f ms, want 8 by about 135: %s", e.Affected, e.Excess, v.Sentence)
	}
}
