package straggler_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// noise returns a generator of factors for the times of one rank, with a mean of about 1.
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

// healthyKind is a kind of job in which no rank is slower than the others and nothing changes.
type healthyKind struct {
	name   string
	noise  noise
	static float64 // standard deviation of the speeds of the ranks
	pauses float64 // probability of a pause of 350 ms for each rank and step
}

var healthyKinds = []healthyKind{
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

// drawnStep is the usual length of a step of a drawn job, in milliseconds.
const drawnStep = 136.0

// drawJob returns the state of a random job.
func drawJob(kind int, seed uint64, more func(rank int, at, draw float64) float64) *straggler.State {
	st := straggler.New(nil)
	for _, step := range drawSteps(kind, seed, more) {
		for r := range step {
			st.Add(&step[r])
		}
	}
	return st
}

// drawSteps draws the steps of all ranks of a job: two pieces of forward around a collective, then backward
// and a collective whose transfers are as noisy as the work. If more is set, it returns the milliseconds by
// which the work of a rank takes longer in a step; at is the position of the step in the run from 0 to 1, and
// draw is a random number from 0 to 1.
func drawSteps(kind int, seed uint64, more func(rank int, at, draw float64) float64) (drawn [][]straggler.Step) {
	k := healthyKinds[kind]
	rng := rand.New(rand.NewPCG(seed, uint64(1000+kind)))
	faults := rand.New(rand.NewPCG(seed, uint64(2000+kind)))
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
				if piece == 2 && more != nil {
					d += more(r, float64(s)/float64(steps), faults.Float64())
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
		drawn = append(drawn, step)
	}
	return drawn
}

// TestNoiseIsNoFinding draws healthy jobs and checks that at most a few verdicts name a rank or a slowdown of
// all ranks. TRAINSPAN_STRAGGLER_NOISE is the number of jobs of each kind of noise, TRAINSPAN_STRAGGLER_SEED
// the first seed.
func TestNoiseIsNoFinding(t *testing.T) {
	jobs, first := 200, uint64(1)
	if testing.Short() {
		jobs = 12
	}
	fmt.Sscan(os.Getenv("TRAINSPAN_STRAGGLER_NOISE"), &jobs)
	fmt.Sscan(os.Getenv("TRAINSPAN_STRAGGLER_SEED"), &first)
	for kind, k := range healthyKinds {
		t.Run(k.name, func(t *testing.T) {
			named, common, unknown := 0, 0, 0
			for i := range jobs {
				v := drawJob(kind, first+uint64(i), nil).Verdict()
				hasRanks, hasCommon := false, false
				if v.Kind == finding.Unknown {
					unknown++
				}
				for _, f := range append([]finding.Finding{v.Finding}, v.Others...) {
					switch f.Kind {
					case finding.SlowRanks:
						hasRanks = true
					case finding.Drift, finding.SlowTransfer:
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
			t.Logf("| %s | %d of %d | %d of %d | %d of %d |", k.name, named, jobs, common, jobs, unknown, jobs)
			mostNamed, mostCommon, mostUnknown := 1+jobs/100, 1+jobs/50, 2+jobs/10
			if k.pauses > 0 {
				mostUnknown = 2 + jobs/2 // two pauses of one rank may be its own fault
			}
			if named > mostNamed || common > mostCommon || unknown > mostUnknown {
				t.Errorf("%d jobs with an innocent rank, %d with an invented loss and %d unknown of %d, want at most %d, %d and %d", named, common, unknown, jobs, mostNamed, mostCommon, mostUnknown)
			}
		})
	}
}

// guilty lists faults of rank 1 and the least number of jobs, in 100, in which it is named alone.
var guilty = []struct {
	name  string
	kind  string // of healthyKinds
	more  func(at, draw float64) float64
	least int
}{
	{"2 % of a step", "iid 2 %", always(0.02), 0},
	{"3 % of a step", "iid 2 %", always(0.03), 0},
	{"5 % of a step", "iid 2 %", always(0.05), 80},
	{"5 % of a step", "iid 6 %", always(0.05), 0},
	{"5 % of a step", "lognormal 0.3", always(0.05), 0},
	{"10 % of a step", "iid 6 %", always(0.10), 80},
	{"10 % of a step", "iid 10 %", always(0.10), 60},
	{"10 % of a step", "lognormal 0.3", always(0.10), 0},
	{"20 % of a step", "lognormal 0.6", always(0.20), 0},
	{"3 % of a step", "AR(0.9) 2 %", always(0.03), 0},
	{"5 % of a step", "AR(0.9) 2 %", always(0.05), 0},
	{"10 % of a step", "AR(0.9) 2 %", always(0.10), 60},
	{"10 % of a step", "AR(0.9) 6 %", always(0.10), 0},
	{"20 % of a step", "AR(0.9) 6 %", always(0.20), 50},
	{"20 % of a step", "AR(0.9) 10 %", always(0.20), 40},
	{"5 % from half of the run on", "iid 2 %", later(0.05), 0},
	{"10 % from half of the run on", "iid 2 %", later(0.10), 90},
	{"10 % from half of the run on", "AR(0.9) 2 %", later(0.10), 0},
	{"stalls of 350 ms in 3 % of the steps", "iid 2 %", stalls(0.03), 0},
	{"stalls of 350 ms in 5 % of the steps", "iid 2 %", stalls(0.05), 40},
	{"stalls of 350 ms in 10 % of the steps", "iid 2 %", stalls(0.10), 75},
	{"stalls of 350 ms in 10 % of the steps", "pauses 1 %", stalls(0.10), 50},
	{"stalls of 100 ms in 10 % of the steps", "iid 2 %", func(_, draw float64) float64 {
		if draw < 0.1 {
			return 100
		}
		return 0
	}, 70},
}

func always(part float64) func(at, draw float64) float64 {
	return func(float64, float64) float64 { return part * drawnStep }
}

func later(part float64) func(at, draw float64) float64 {
	return func(at, _ float64) float64 {
		if at < 0.5 {
			return 0
		}
		return part * drawnStep
	}
}

func stalls(chance float64) func(at, draw float64) float64 {
	return func(_, draw float64) float64 {
		if draw < chance {
			return 350
		}
		return 0
	}
}

// namedIn returns the ranks that the findings of a verdict name as slow.
func namedIn(v *straggler.Verdict) (ranks []int) {
	for _, f := range append([]finding.Finding{v.Finding}, v.Others...) {
		if f.Kind == finding.SlowRanks {
			ranks = append(ranks, f.Ranks...)
		}
	}
	return ranks
}

// TestGuiltyRanksAreNamed draws jobs with a slow rank, which must be named in most of them if the fault is
// clear. It logs how often the rank is named alone, with others, and suspected. TRAINSPAN_STRAGGLER_GUILTY is
// the number of jobs of each fault.
func TestGuiltyRanksAreNamed(t *testing.T) {
	jobs := 20
	if testing.Short() {
		t.Skip("draws hundreds of jobs")
	}
	fmt.Sscan(os.Getenv("TRAINSPAN_STRAGGLER_GUILTY"), &jobs)
	for _, g := range guilty {
		t.Run(g.name+", "+g.kind, func(t *testing.T) {
			kind := kindOf(g.kind)
			right, beside, innocent, unknown := 0, 0, 0, 0
			for i := range jobs {
				v := drawJob(kind, 1+uint64(i), func(r int, at, draw float64) float64 {
					if r != 1 {
						return 0
					}
					return g.more(at, draw)
				}).Verdict()
				ranks := namedIn(v)
				switch {
				case len(ranks) == 0 && v.Suspected != nil:
					unknown++
				case len(ranks) == 0:
				case !slices.Contains(ranks, 1):
					innocent++
				case len(ranks) > 1:
					beside++
				default:
					right++
				}
			}
			t.Logf("| %s, %s | %d | %d | %d | %d | of %d", g.name, g.kind, right, beside, innocent, unknown, jobs)
			if innocent > 0 || 100*right < g.least*jobs {
				t.Errorf("rank 1 is named alone in %d jobs and others in %d, want %d of 100 or more and 0", right, innocent, g.least)
			}
		})
	}
}

func kindOf(name string) int {
	return slices.IndexFunc(healthyKinds, func(k healthyKind) bool { return k.name == name })
}

// TestPermutedLabelsNameNobody: a rank is named because it is late repeatedly. If the labels of the ranks are
// permuted in each step, the times are the same but no rank is named.
func TestPermutedLabelsNameNobody(t *testing.T) {
	jobs := 3
	if testing.Short() {
		jobs = 1
	}
	for _, g := range guilty {
		kind := kindOf(g.kind)
		for seed := range uint64(jobs) {
			steps := drawSteps(kind, 1+seed, func(r int, at, draw float64) float64 {
				if r != 1 {
					return 0
				}
				return g.more(at, draw)
			})
			rng := rand.New(rand.NewPCG(seed, 9))
			st := straggler.New(nil)
			for _, step := range steps {
				for r, label := range rng.Perm(len(step)) {
					step[r].Rank = label
					st.Add(&step[r])
				}
			}
			v := st.Verdict()
			if ranks := namedIn(v); len(ranks) > 0 {
				t.Errorf("%s, %s, seed %d: named %v with permuted labels, want nobody: %s", g.name, g.kind, 1+seed, ranks, v.Sentence)
			}
		}
	}
}
