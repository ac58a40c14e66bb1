package straggler_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// job is a simulated training job with faults. Times are milliseconds.
type job struct {
	n, m    int
	seed    uint64
	layout  string // separate, nested, hidden, async, overlapped, fsdp, pipeline
	sigma   float64
	phi     float64 // lag-1 autocorrelation
	static  float64 // standard deviation of the ranks' speed
	base    map[straggler.Phase]float64
	comm    float64
	groups  int  // size of sub-groups that have their own collective
	accum   int  // forward and backward pairs per step
	every   int  // steps per collective, as with local SGD
	micro   bool // a step is a micro-batch, and only those with a collective have an update
	stages  int  // number of pipeline stages
	noP2P   bool // messages are in no span
	peers   bool // messages have peers
	noRoles bool // the stages of ranks are not recorded
	noNorm  bool // no collective of all ranks after that of each stage
	joins   bool // the wait in the collective is recorded as a join
	noLanes bool // all spans are on one lane, as in files without threads
	tokens  bool
	tail    float64
	ckpt    int // steps between saves
	ckptMS  float64
	faults  []fault
	missing []int
	die     *death
}

type death struct {
	rank, step int
	open       bool // the spans that never ended are recorded
}

// fault adds time to some ranks in some steps, or multiplies it. Phase Communication makes the transfer
// slower.
type fault struct {
	ranks    []int // nil: all
	phases   []straggler.Phase
	factor   float64
	add      float64
	from, to int
	prob     float64 // probability for each step; 0 means all steps
	ramp     int
	vary     float64
	anyone   bool // independent for each rank and step
	group    string
	work     bool // the rank has more tokens, by the factor
}

func (j job) withDefaults() job {
	def := func(x *float64, v float64) {
		if *x == 0 {
			*x = v
		}
	}
	def(&j.sigma, 0.015)
	def(&j.phi, 0.5)
	def(&j.static, 0.006)
	def(&j.comm, 25)
	j.n, j.m = max(j.n, 2), max(j.m, 1)
	j.accum, j.every, j.stages = max(j.accum, 1), max(j.every, 1), max(j.stages, 2)
	if j.layout == "" {
		j.layout = "separate"
	}
	base := map[straggler.Phase]float64{straggler.Input: 5, straggler.Transfer: 1.5, straggler.Forward: 70,
		straggler.Backward: 140, straggler.Optimizer: 10, straggler.Host: 2}
	for p, v := range j.base {
		base[p] = v
	}
	j.base = base
	return j
}

var simulated = []straggler.Phase{straggler.Input, straggler.Transfer, straggler.Forward, straggler.Backward,
	straggler.Optimizer, straggler.Host, straggler.Checkpoint}

type sim struct {
	job
	rng   *rand.Rand
	dur   map[straggler.Phase][][]float64 // by rank and step
	work  [][]float64
	comms []float64 // transfer factor by step
	slow  map[string][]float64
	now   []float64 // true time of each rank, ms
	clock []int64   // offset of each rank's clock
	steps [][]straggler.Step
	cur   []straggler.Step
}

// state simulates the job and returns the State of its steps.
func (j job) state() *straggler.State {
	st := straggler.New(&straggler.Options{WorldSize: j.n})
	s := j.run()
	for r := range s.steps {
		if s.layout == "pipeline" && !s.noRoles {
			st.SetRank(r, straggler.Rank{Role: fmt.Sprintf("stage%d", r%s.stages)})
		}
		for i := range s.steps[r] {
			if !slices.Contains(j.missing, r) {
				st.Add(&s.steps[r][i])
			}
		}
	}
	return st
}

func (j job) run() *sim {
	j = j.withDefaults()
	s := &sim{job: j, rng: rand.New(rand.NewPCG(j.seed, 7)), dur: map[straggler.Phase][][]float64{},
		now: make([]float64, j.n), clock: make([]int64, j.n), steps: make([][]straggler.Step, j.n), slow: map[string][]float64{}}
	for r := range s.clock {
		s.clock[r] = 1_700_000_000e9 + int64(s.rng.Float64()*5e9) // clocks are seconds apart
	}
	s.durations()
	for step := range s.m {
		s.cur = make([]straggler.Step, s.n)
		for r := range s.cur {
			s.cur[r] = straggler.Step{Rank: r, Number: int64(step)}
			if s.tokens {
				s.cur[r].Tokens = int64(8192 * s.work[r][step])
			}
		}
		over := s.step(step)
		for r := range s.cur {
			if over && len(s.cur[r].Spans) > 0 {
				s.cur[r].Start = s.cur[r].Spans[0].Start // the step never ended
			}
			s.steps[r] = append(s.steps[r], s.cur[r])
		}
		if over {
			break
		}
	}
	return s
}

func (s *sim) durations() {
	relative := map[straggler.Phase]float64{straggler.Input: 20, straggler.Transfer: 3, straggler.Forward: 1,
		straggler.Backward: 1, straggler.Optimizer: 1.3, straggler.Host: 20}
	static := make([]float64, s.n)
	for r := range static {
		static[r] = 1 + s.static*s.rng.NormFloat64()
	}
	series := func() []float64 {
		out, z := make([]float64, s.m), s.rng.NormFloat64()
		for i := range out {
			z = s.phi*z + math.Sqrt(1-s.phi*s.phi)*s.rng.NormFloat64()
			out[i] = z
		}
		return out
	}
	for _, p := range simulated {
		common := series()
		d := make([][]float64, s.n)
		for r := range d {
			own := series()
			d[r] = make([]float64, s.m)
			for i := range d[r] {
				sg := min(relative[p]*s.sigma, 0.3)
				v := s.base[p] * math.Exp(sg*(math.Sqrt(0.3)*common[i]+math.Sqrt(0.7)*own[i]))
				switch p {
				case straggler.Forward, straggler.Backward:
					v *= static[r]
					if i < 3 {
						v *= 1 + 3*math.Exp(-1.5*float64(i)) // warm-up
					}
				case straggler.Input, straggler.Host:
					if s.rng.Float64() < s.tail {
						v *= 5 * (1 + 0.4*s.rng.ExpFloat64())
					}
				case straggler.Checkpoint:
					v = 0
					if s.ckpt > 0 && i%s.ckpt == s.ckpt-1 {
						v = s.ckptMS
					}
				}
				d[r][i] = v
			}
		}
		s.dur[p] = d
	}
	s.comms = series()
	for i, z := range s.comms {
		s.comms[i] = s.comm * math.Exp(0.06*z)
	}
	s.work = make([][]float64, s.n)
	for r := range s.work {
		s.work[r] = slices.Repeat([]float64{1}, s.m)
	}
	for _, f := range s.faults {
		s.inject(f)
	}
}

func (s *sim) inject(f fault) {
	if f.factor == 0 {
		f.factor = 1
	}
	if f.to == 0 {
		f.to = s.m
	}
	if slices.Contains(f.phases, straggler.Communication) {
		rows := s.comms
		if f.group != "" {
			rows = slices.Repeat([]float64{1}, s.m)
			s.slow[f.group] = rows
		}
		for i := f.from; i < f.to; i++ {
			if f.prob == 0 || s.rng.Float64() < f.prob {
				rows[i] *= f.factor
			}
		}
		return
	}
	for r := range s.n {
		if f.ranks != nil && !slices.Contains(f.ranks, r) {
			continue
		}
		for i := f.from; i < min(f.to, s.m); i++ {
			if f.prob > 0 && s.rng.Float64() >= f.prob {
				continue
			}
			k := 1.0
			if f.ramp > 0 {
				k = min(1, float64(i-f.from+1)/float64(f.ramp))
			}
			k *= math.Exp(f.vary * s.rng.NormFloat64())
			if f.work {
				w := f.factor
				if f.anyone {
					w = math.Exp(f.vary * s.rng.NormFloat64())
				}
				s.work[r][i] *= w
				s.dur[straggler.Forward][r][i] *= w
				s.dur[straggler.Backward][r][i] *= w
				continue
			}
			for _, p := range f.phases {
				if p == straggler.Checkpoint && (s.ckpt == 0 || i%s.ckpt != s.ckpt-1) {
					continue
				}
				s.dur[p][r][i] = s.dur[p][r][i]*(1+(f.factor-1)*k) + f.add*k
			}
		}
	}
}

// emit records a span of duration d on lane 0 and advances the rank.
func (s *sim) emit(r int, p straggler.Phase, d float64) {
	s.record(r, straggler.Span{Phase: p}, s.now[r], s.now[r]+d)
	s.now[r] += d
}

// record adds a span between true times; an end of +Inf means that it never ended.
func (s *sim) record(r int, sp straggler.Span, from, to float64) {
	sp.Start = s.clock[r] + int64(from*1e6)
	if !math.IsInf(to, 1) {
		sp.End = s.clock[r] + int64(to*1e6)
	}
	if s.noLanes {
		sp.Lane = 0
	}
	s.cur[r].Spans = append(s.cur[r].Spans, sp)
}

// exit returns a random delay between the end of a collective and the end of its span.
func (s *sim) exit() float64 { return 0.1 * s.rng.ExpFloat64() }
