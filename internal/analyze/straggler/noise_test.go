package straggler_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// noise draws factors of the times of one rank, of mean 1 or nearly so.
type noise func(rng *rand.Rand) func() float64

func iidNoise(part float64) noise {
	return func(rng *rand.Rand) func() float64 {
		return func() float64 { return max(1+part*rng.NormFloat64(), 0.1) }
	}
}

func lognormalNoise(sigma float64) noise {
	return func(rng *rand.Rand) func() float64 {
		return func() float64 { return math.Exp(sigma*rng.NormFloat64() - sigma*sigma/2) }
	}
}

func wanderingNoise(part, rho float64) noise {
	return func(rng *rand.Rand) func() float64 {
		z := rng.NormFloat64()
		return func() float64 {
			z = rho*z + math.Sqrt(1-rho*rho)*rng.NormFloat64()
			return max(1+part*z, 0.1)
		}
	}
}

// healthyKinds are jobs in which no rank is slower than others and nothing changes.
var healthyKinds = []struct {
	name   string
	noise  noise
	static float64 // by how much the speeds of the ranks differ
	pauses float64 // chance of one of 350 ms, of each rank and step
}{
	{name: "iid 2 %", noise: iidNoise(0.02)},
	{name: "iid 6 %", noise: iidNoise(0.06)},
	{name: "iid 10 %", noise: iidNoise(0.10)},
	{name: "lognormal 0.3", noise: lognormalNoise(0.3)},
	{name: "lognormal 0.6", noise: lognormalNoise(0.6)},
	{name: "AR(0.9) 2 %", noise: wanderingNoise(0.02, 0.9)},
	{name: "AR(0.9) 6 %", noise: wanderingNoise(0.06, 0.9)},
	{name: "AR(0.9) 10 %", noise: wanderingNoise(0.10, 0.9)},
	{name: "pauses 1 %", noise: iidNoise(0.02), pauses: 0.01},
	{name: "pauses 5 %", noise: iidNoise(0.02), pauses: 0.05},
	{name: "speeds 0.5 %", noise: iidNoise(0.02), static: 0.005},
}

// healthyJob draws one: two pieces of forward around a collective, backward, and a
// collective whose transfers are as noisy as the work.
func healthyJob(kind int, seed uint64) *straggler.State {
	k := healthyKinds[kind]
	rng := rand.New(rand.NewPCG(seed, uint64(1000+kind)))
	ranks, steps := []int{2, 4, 8, 16, 64}[rng.IntN(5)], 60+rng.IntN(120)
	if ranks == 64 {
		steps = 60
	}
	base := []float64{20, 20, 80} // ms
	var work [][]func() float64
	speed := make([]float64, ranks)
	for r := range speed {
		speed[r] = 1 + k.static*rng.NormFloat64()
		var own []func() float64
		for range base {
			own = append(own, k.noise(rng))
		}
		work = append(work, own)
	}
	moved := []func() float64{k.noise(rng), k.noise(rng)}
	st := straggler.New(nil)
	now := 0.0
	ends, begin := make([]float64, ranks), make([]float64, ranks)
	for s := range steps {
		step := make([]straggler.Step, ranks)
		meet := func(ms float64) {
			end := slices.Max(ends) + ms
			for r := range ends {
				step[r].Spans = append(step[r].Spans, straggler.Span{Phase: straggler.Communication, Start: int64(1e15 + ends[r]*1e6), End: int64(1e15 + end*1e6)})
			}
			now = end
		}
		for r := range step {
			step[r] = straggler.Step{Rank: r, Number: int64(s)}
		}
		for piece, ms := range base {
			phase := straggler.Forward
			if piece == 2 {
				phase = straggler.Backward
			}
			for r := range step {
				d := ms * speed[r] * work[r][piece]()
				if piece == 2 && rng.Float64() < k.pauses {
					d += 350
				}
				from := now
				if piece == 2 {
					from = begin[r]
				}
				ends[r] = from + d
				step[r].Spans = append(step[r].Spans, straggler.Span{Phase: phase, Start: int64(1e15 + from*1e6), End: int64(1e15 + ends[r]*1e6)})
			}
			if piece != 1 { // before the second piece of forward, and after backward
				meet(8 * moved[piece/2]())
				continue
			}
			copy(begin, ends)
		}
		for r := range step {
			st.Add(&step[r])
		}
	}
	return st
}

// TestNoiseIsNoFinding draws healthy jobs, names no rank of them and invents nothing that
// all ranks lose. TRAINSPAN_STRAGGLER_NOISE is the number of jobs of each kind of noise,
// TRAINSPAN_STRAGGLER_SEED the first seed.
func TestNoiseIsNoFinding(t *testing.T) {
	jobs, first := 200, uint64(1)
	if testing.Short() {
		jobs = 12
	}
	fmt.Sscan(os.Getenv("TRAINSPAN_STRAGGLER_NOISE"), &jobs)
	fmt.Sscan(os.Getenv("TRAINSPAN_STRAGGLER_SEED"), &first)
	for kind, k := range healthyKinds {
		t.Run(k.name, func(t *testing.T) {
			named, common := 0, 0
			for i := range jobs {
				v := healthyJob(kind, first+uint64(i)).Verdict()
				hasRanks, hasCommon := false, false
				for _, f := range append([]straggler.Finding{v.Finding}, v.Others...) {
					switch f.Kind {
					case straggler.SlowRanks:
						hasRanks = true
					case straggler.Drift, straggler.SlowTransfer:
						hasCommon = true
					}
				}
				if hasRanks {
					named++
					t.Logf("seed %d of %d ranks: %s %s", first+uint64(i), v.Coverage.Seen, v.Sentence, v.Second)
				}
				if hasCommon {
					common++
					t.Logf("seed %d of %d ranks: %s %s", first+uint64(i), v.Coverage.Seen, v.Sentence, v.Second)
				}
			}
			t.Logf("| %s | %d of %d | %d of %d |", k.name, named, jobs, common, jobs)
			if mostNamed, mostCommon := 1+jobs/10, 1+jobs/50; named > mostNamed || common > mostCommon {
				t.Errorf("%d jobs with an innocent rank and %d with an invented loss of %d, want at most %d and %d", named, common, jobs, mostNamed, mostCommon)
			}
		})
	}
}
