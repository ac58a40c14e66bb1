package fromjob_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/analyze/straggler/fromjob"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/spans"
)

// profile is a job as imported from PyTorch profiles: the host launches work and runs ahead of the device,
// whose collectives are on a separate stream. Times are milliseconds.
type profile struct {
	ranks, steps int
	forward      func(rank, step int) float64 // of the device
	backward     func(rank, step int) float64
	input        func(rank, step int) float64 // of the host
	noDevice     bool                         // device times are not recorded
	group        string                       // of the collectives
	autograd     bool                         // forward and backward are on separate threads
}

func (p profile) attempt(t *testing.T) fromjob.Attempt {
	t.Helper()
	const buckets, transfer = 3, 4.0
	rng := rand.New(rand.NewPCG(11, 13))
	c := fromjob.New(nil)
	j := &job.Job{}
	procs := make([]*job.Process, p.ranks)
	sinks := make([]job.Sink, p.ranks)
	for r := range procs {
		procs[r] = &job.Process{Rank: r, RankKnown: true, Attempt: 1, Start: 1e18, End: 2e18, LastSeen: 2e18}
		sinks[r] = open(c, procs[r])
	}
	id := uint64(0)
	emit := func(r int, sp job.Span, from, to float64) {
		id++
		sp.ID, sp.First = id, job.Unknown
		sp.Start = 1e18 + int64(r)*7e9 + int64(from*1e6) // clocks are seconds apart
		sp.End = 1e18 + int64(r)*7e9 + int64(to*1e6)
		if sp.Name != spans.TrainingIteration && sp.Cat != "comm" {
			sp.Step = job.Unknown
		}
		sp.SetName(sp.Cat, sp.Name)
		procs[r].Steps.Add(&sp)
		sinks[r].Span(&sp)
	}
	host, device := make([]float64, p.ranks), make([]float64, p.ranks)
	for s := range p.steps {
		ready := make([][buckets]float64, p.ranks)
		comm := make([]float64, p.ranks) // collective time by rank, filled once the collectives are known
		type launches struct{ forward, backward [2]float64 }
		at := make([]launches, p.ranks)
		begin := slices.Clone(host)
		for r := range p.ranks {
			in := 2.0
			if p.input != nil {
				in = p.input(r, s)
			}
			emit(r, job.Span{Name: spans.DataLoading, Thread: 1}, host[r], host[r]+in)
			host[r] += in
			jitter := func() float64 { return 1 + 0.01*rng.NormFloat64() }
			f, b := p.forward(r, s)*jitter(), p.backward(r, s)*jitter()
			at[r] = launches{[2]float64{host[r], host[r] + 3}, [2]float64{host[r] + 3, host[r] + 8}}
			device[r] = max(device[r], host[r]) + f
			for k := range buckets {
				ready[r][k] = device[r] + b*float64(k+1)/buckets
			}
			device[r] += b
			host[r] += 8
		}
		end := 0.0
		for k := range buckets {
			enter := make([]float64, p.ranks)
			last := 0.0
			for r := range p.ranks {
				enter[r] = max(ready[r][k], end)
				last = max(last, enter[r])
			}
			end = last + transfer
			for r := range p.ranks {
				out := end + 0.02*rng.ExpFloat64()
				comm[r] += out - enter[r]
				emit(r, job.Span{Name: "all_reduce", Cat: "comm", Thread: 1000000013, Step: int64(s), Group: p.group}, enter[r], out)
			}
		}
		for r := range p.ranks {
			device[r] = max(device[r], end)
			f, b := job.Span{Name: spans.ModelForward, Thread: 1}, job.Span{Name: spans.ModelBackward, Thread: 1}
			if p.autograd {
				f.Thread, b.Thread = 700000002, 700000001
			}
			if !p.noDevice {
				f.Device = int64(p.forward(r, s) * 1e6)
				b.Device = int64((p.backward(r, s) + comm[r]) * 1e6)
				b.DeviceComm = int64(comm[r] * 1e6)
			}
			emit(r, f, at[r].forward[0], at[r].forward[1])
			emit(r, b, at[r].backward[0], at[r].backward[1])
			emit(r, job.Span{Name: spans.TrainingIteration, Thread: 1, Step: int64(s)}, begin[r], host[r])
			// The host runs at most two steps ahead of the device.
			host[r] = max(host[r], device[r]-100)
		}
	}
	for r := range sinks {
		if err := sinks[r].Close(); err != nil {
			t.Fatal(err)
		}
		j.Processes = append(j.Processes, procs[r])
	}
	return c.Attempts(j)[0]
}

func constant(x float64) func(int, int) float64 { return func(int, int) float64 { return x } }

func slower(rank int, x, by float64) func(int, int) float64 {
	return func(r, _ int) float64 {
		if r == rank {
			return x + by
		}
		return x
	}
}

func TestProfiles(t *testing.T) {
	even := profile{ranks: 4, steps: 40, forward: constant(15), backward: constant(30)}
	with := func(f func(*profile)) profile {
		p := even
		f(&p)
		return p
	}
	tests := []struct {
		name   string
		p      profile
		kind   finding.Kind
		ranks  []int
		cause  string
		reason string
	}{
		{"healthy", even, finding.Fine, nil, "", ""},
		{"backward on the device", with(func(p *profile) { p.backward = slower(2, 30, 8) }), finding.SlowRanks, []int{2}, "backward", ""},
		{"forward on the device", with(func(p *profile) { p.forward = slower(1, 15, 8) }), finding.Unknown, nil, "", "replay"},
		{"both", with(func(p *profile) { p.forward, p.backward = slower(3, 15, 3), slower(3, 30, 6) }), finding.SlowRanks, []int{3}, "compute", ""},
		{"on lanes of their own", with(func(p *profile) { p.backward, p.autograd = slower(2, 30, 8), true }), finding.SlowRanks, []int{2}, "backward", ""},
		{"the loader of one rank", with(func(p *profile) { p.input = slower(2, 2, 70) }), finding.Unknown, nil, "", "replay"},
		{"a group of all ranks that has a name", with(func(p *profile) { p.backward, p.group = slower(2, 30, 8), "0" }), finding.SlowRanks, []int{2}, "backward", ""},
		{"a profile of five steps", with(func(p *profile) { p.backward, p.steps = slower(2, 30, 8), 5 }), finding.Unknown, nil, "", "too_few_steps"},
		{"of one step", with(func(p *profile) { p.steps = 1 }), finding.Unknown, nil, "", "too_few_steps"},
		{"of one rank", with(func(p *profile) { p.ranks = 1 }), finding.Unknown, nil, "", straggler.ReasonSingleRank},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := tt.p.attempt(t).State.Verdict()
			if v.Kind != tt.kind || !slices.Equal(v.Ranks, tt.ranks) || v.Cause != tt.cause || v.Reason != tt.reason {
				t.Errorf("got %s %v %s %s, want %s %v %s %s: %s", v.Kind, v.Ranks, v.Cause, v.Reason, tt.kind, tt.ranks, tt.cause, tt.reason, v.Sentence)
			}
			if tt.kind == finding.SlowRanks && (v.Evidence == nil || math.Abs(v.Evidence.Excess) < 5) {
				t.Errorf("evidence %+v, %+v; want an excess of 5 %% or more", v.Evidence, v.Coverage)
			}
		})
	}
}

// TestProfileWithoutDeviceTimes: without device times the verdict is unknown, because the host only launched
// work.
func TestProfileWithoutDeviceTimes(t *testing.T) {
	p := profile{ranks: 4, steps: 40, forward: constant(15), backward: slower(2, 30, 8), noDevice: true}
	if v := p.attempt(t).State.Verdict(); v.Kind != finding.Unknown || v.Reason != "no_device_times" {
		t.Errorf("got %s %v %s, want unknown for no_device_times: %s", v.Kind, v.Ranks, v.Cause, v.Sentence)
	}
}

// TestRoles: an attribute of the training loop distinguishes pipeline stages.
func TestRoles(t *testing.T) {
	c := fromjob.New(nil)
	j := &job.Job{}
	rng := rand.New(rand.NewPCG(1, 2))
	const ranks, steps = 8, 60
	procs, sinks, now := make([]*job.Process, ranks), make([]job.Sink, ranks), make([]float64, ranks)
	id := uint64(0)
	emit := func(r int, sp job.Span, from, to float64) {
		id++
		sp.ID, sp.First, sp.Thread = id, job.Unknown, 1
		sp.Start, sp.End = 1e18+int64(from*1e6), 1e18+int64(to*1e6)
		sp.SetName(sp.Cat, sp.Name)
		procs[r].Steps.Add(&sp)
		sinks[r].Span(&sp)
	}
	for r := range ranks {
		procs[r] = &job.Process{Rank: r, RankKnown: true, Attempt: 1, Start: 1e18, End: 2e18, LastSeen: 2e18}
		sinks[r] = open(c, procs[r])
	}
	for s := range steps {
		begin, last := slices.Clone(now), 0.0
		for r := range ranks {
			d := 50.0
			if r >= 6 { // the last stage has more work
				d = 70
			}
			d *= 1 + 0.01*rng.NormFloat64()
			emit(r, job.Span{Name: spans.ModelForward, Step: job.Unknown}, now[r], now[r]+d)
			now[r] += d
			last = max(last, now[r])
		}
		for r := range ranks {
			emit(r, job.Span{Name: "all_reduce", Cat: "comm", Step: job.Unknown}, now[r], last+5)
			now[r] = last + 5
			emit(r, job.Span{Name: spans.TrainingIteration, Step: int64(s)}, begin[r], now[r])
		}
	}
	for r := range ranks {
		emit(r, job.Span{Name: spans.TrainingLoop, Step: job.Unknown, Role: fmt.Sprintf("stage %d", r/2)}, 0, now[r])
		if err := sinks[r].Close(); err != nil {
			t.Fatal(err)
		}
		j.Processes = append(j.Processes, procs[r])
	}
	v := c.Attempts(j)[0].State.Verdict()
	if v.Kind != finding.Fine || v.Ranking[7].Role != "stage 3" {
		t.Errorf("got %s %v, want no finding and rank 7 of the ranking in stage 3: %s", v.Kind, v.Ranks, v.Sentence)
	}
}
