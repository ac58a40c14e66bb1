package simjob

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// family is a set of jobs with one kind of truth.
type family struct {
	name string
	draw func(r *rand.Rand, j *Job)
}

// Families returns the names that Draw accepts.
func Families() (out []string) {
	for _, f := range families {
		out = append(out, f.name)
	}
	return out
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func uniform(r *rand.Rand, low, high float64) float64 { return low + (high-low)*r.Float64() }

// blocking are the layouts with collectives on the training thread.
var blocking = []Layout{DP, Accum, TPDP, PP, FSDP, MoE, DPLoss}

var families = []family{
	{"healthy", func(r *rand.Rand, j *Job) {
		j.Layout = pick(r, append(slices.Clone(blocking), Buckets, Prefetch)...)
		j.JoinSpan, j.Loss = r.IntN(2) == 0, r.IntN(2) == 0
	}},
	{"single", func(r *rand.Rand, j *Job) {
		j.Layout = pick(r, blocking...)
		j.Faults = []Fault{j.slow(r, r.IntN(j.Ranks))}
	}},
	{"two", func(r *rand.Rand, j *Job) {
		j.Layout = pick(r, DP, FSDP, DPLoss)
		a := r.IntN(j.Ranks)
		j.Faults = []Fault{j.steady(r, a), j.steady(r, (a+1+r.IntN(j.Ranks-1))%j.Ranks)}
	}},
	{"host", func(r *rand.Rand, j *Job) {
		j.Layout, j.Ranks, j.PerHost = pick(r, DP, FSDP), pick(r, 8, 16), 4
		f, h := j.steady(r, 0), r.IntN(j.Ranks/4)
		f.Ranks = []int{4 * h, 4*h + 1, 4*h + 2, 4*h + 3}
		j.Faults = []Fault{f}
	}},
	{"link", func(r *rand.Rand, j *Job) {
		j.Layout, j.Ranks = TPDP, pick(r, 8, 16)
		j.Faults = []Fault{{What: Link, Group: fmt.Sprintf("dp%d", r.IntN(4)), Factor: uniform(r, 3, 6)}}
	}},
	{"imbalance", func(r *rand.Rand, j *Job) {
		j.Layout = pick(r, DP, MoE, FSDP)
		j.Ranks = max(j.Ranks, 4)
		j.Faults = []Fault{{What: Imbalance, Phase: pick(r, Forward, Backward), Add: uniform(r, 20, 60)}}
	}},
	{"input", func(r *rand.Rand, j *Job) {
		j.Layout = pick(r, DP, FSDP)
		j.Faults = []Fault{{What: Storage, Add: uniform(r, 40, 120)}}
	}},
	{"prefetch", func(r *rand.Rand, j *Job) {
		j.Layout, j.Queue = Prefetch, 1+r.IntN(3)
		if r.IntN(2) == 0 {
			j.Faults = []Fault{{What: Storage, Factor: uniform(r, 5, 7)}}
		} else {
			j.Faults = []Fault{{What: Slow, Ranks: []int{r.IntN(j.Ranks)}, Phase: Input, Factor: pick(r, 1.5, 5, 6)}}
		}
	}},
	{"drift", func(r *rand.Rand, j *Job) {
		j.Layout = pick(r, DP, FSDP)
		j.Steps = max(j.Steps, 80)
		j.Faults = []Fault{{What: Drift, Phase: Backward, Factor: uniform(r, 1.2, 1.5), From: j.Steps / 2}}
	}},
	{"overlap", func(r *rand.Rand, j *Job) {
		j.Layout, j.JoinSpan, j.Loss = Buckets, r.IntN(2) == 0, r.IntN(2) == 0
		j.Faults = []Fault{j.steady(r, r.IntN(j.Ranks))}
	}},
	{"hang", func(r *rand.Rand, j *Job) {
		j.Layout = pick(r, DP, TPDP, FSDP, MoE, Accum)
		j.Faults = []Fault{{What: Hang, Ranks: []int{r.IntN(j.Ranks)}, Phase: pick(r, Input, Forward, Backward, Optimizer), From: j.Steps - 1 - r.IntN(5), Watchdog: pick(r, 1500.0, 4000, 30000, 120000)}}
		if r.IntN(5) == 0 { // a collective that never ends
			j.Layout = pick(r, DP, FSDP)
			j.Faults[0].Ranks, j.Faults[0].Group, j.Faults[0].Phase = nil, "world", ""
		}
	}},
	{"killed", func(r *rand.Rand, j *Job) {
		j.Layout = pick(r, DP, TPDP, FSDP)
		j.Faults = []Fault{{What: Kill, From: j.Steps - 2}}
	}},
	{"tokens", func(r *rand.Rand, j *Job) {
		j.Layout, j.Ranks = DP, max(j.Ranks, 4)
		j.Faults = []Fault{{What: Tokens, Factor: uniform(r, 0.2, 0.4), Recorded: r.IntN(2) == 0}}
	}},
	{"unrecorded", func(r *rand.Rand, j *Job) {
		j.Layout, j.Ranks, j.Unrecorded = pick(r, PP, TPDP, DP), max(j.Ranks, 8), true
		j.Faults = []Fault{{What: Slow, Ranks: []int{r.IntN(j.Ranks)}, Phase: Forward, Add: uniform(r, 20, 60)}}
	}},
	{"clock", func(r *rand.Rand, j *Job) {
		j.Layout, j.Noise = DP, IID
		seed := j.Seed
		j.Offset = func(rank int) int64 { return int64(uniform(draw(seed, "offset", rank), -2, 2) * 86400e6) }
		j.Drift = func(rank int) float64 { return uniform(draw(seed, "ppm", rank), -200, 200) }
	}},
	{"gpu", func(r *rand.Rand, j *Job) {
		j.Layout, j.Ahead, j.Item = pick(r, GPU, GPUTP), 1+r.IntN(50), pick(r, 0, 10, 50)
		switch r.IntN(3) {
		case 0:
			f := Fault{What: Slow, Ranks: []int{r.IntN(j.Ranks)}, Phase: pick(r, Forward, Backward), Factor: uniform(r, 1.15, 1.5)}
			j.Faults = []Fault{f}
		case 1:
			j.Faults = []Fault{{What: Slow, Ranks: []int{r.IntN(j.Ranks)}, Phase: Launch, Factor: uniform(r, 4, 5)}}
		}
	}},
	{"kernel", func(r *rand.Rand, j *Job) { // a kernel of a device never ends
		j.Layout, j.Ahead, j.Item = GPU, 1+r.IntN(15), pick(r, 0, 10)
		j.Faults = []Fault{{What: Hang, Ranks: []int{r.IntN(j.Ranks)}, Phase: pick(r, Forward, Backward), From: j.Steps / 2, Watchdog: 30000}}
	}},
	{"nodevice", func(r *rand.Rand, j *Job) {
		j.Layout, j.Ahead, j.NoDevice = GPU, 1+r.IntN(50), true
		if r.IntN(2) == 0 {
			j.Faults = []Fault{{What: Slow, Ranks: []int{r.IntN(j.Ranks)}, Phase: Backward, Factor: 1.3}}
		}
	}},
}

// steady returns a fault of a rank that is slow in a phase all the time; slow
// returns one with any pattern.
func (j *Job) steady(r *rand.Rand, rank int) Fault {
	return Fault{What: Slow, Ranks: []int{rank}, Phase: pick(r, Input, Forward, Backward, Optimizer), Add: uniform(r, 12, 70)}
}

func (j *Job) slow(r *rand.Rand, rank int) Fault {
	f := j.steady(r, rank)
	switch r.IntN(7) {
	case 0:
		f.Phase = Host
	case 1: // at least three checkpoints
		j.Save = max(j.Steps/(3+r.IntN(4)), 1)
		return Fault{What: Slow, Ranks: f.Ranks, Phase: Checkpoint, Add: uniform(r, 300, 900)}
	}
	switch r.IntN(7) {
	case 0:
		f.Pattern = Uniform
	case 1:
		f.Pattern = Alternating
	case 2:
		f.Pattern, f.Each, f.Add = Every, 3+r.IntN(6), 4*f.Add
	case 3:
		f.From = j.Steps / 3
	case 4:
		f.Pattern, f.Add = Ramp, 1.5*f.Add
	case 5:
		f.From, f.To = j.Steps/4, 3*j.Steps/4
	}
	return f
}

// Draw returns a random job of the named families, or of all. The same seed
// gives the same job.
func Draw(seed uint64, names ...string) *Job {
	if len(names) == 0 {
		names = Families()
	}
	r := draw(seed, "job")
	name := names[r.IntN(len(names))]
	i := slices.IndexFunc(families, func(f family) bool { return f.name == name })
	if i < 0 {
		panic("trainsim: no family " + name)
	}
	j := &Job{Family: name, Seed: seed, Noise: pick(r, Noises...), Ranks: pick(r, 2, 4, 8, 8, 16, 32), Scale: uniform(r, 0.8, 1.7)}
	j.Steps = pick(r, 40, 60, 80)
	if j.Ranks <= 4 {
		j.Steps = pick(r, 80, 110, 150)
	}
	families[i].draw(r, j)
	j.Name = fmt.Sprintf("%s-%s-%d-%d", name, j.Layout, j.Ranks, seed)
	return j
}
