package fromjob_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler/fromjob"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/spans"
)

// events is a job as PyTorch's hooks record it: each rank trains on a device with DistributedDataParallel.
// The host launches work, and device events record when the stream ran it. Times are milliseconds.
type events struct {
	ranks, steps   int
	ahead          float64                      // how far the host may be ahead of the device
	input          func(rank, step int) float64 // of the host
	factor         func(rank, step int) float64 // of the device's times
	backward       func(rank, step int) float64 // added to backward on the device
	launch         func(rank int) float64       // of the host's forward and backward
	launched       bool                         // the host launches a collective even if hidden
	hidden         bool                         // the wait for gradients is not recorded
	unseen         int                          // number of steps at the end without events
	every          func(rank int) int           // one block of 8 steps of this number has events
	killed         bool
	withCheckpoint bool
}

func (e events) attempt(t *testing.T) fromjob.Attempt {
	t.Helper()
	const forward, backward, update, transfer = 12.0, 24.0, 3.0, 2.0
	rng := rand.New(rand.NewPCG(5, 7))
	c := fromjob.New(nil)
	j := &job.Job{Ranks: e.ranks}
	procs, sinks := make([]*job.Process, e.ranks), make([]job.Sink, e.ranks)
	host, device := make([]float64, e.ranks), make([]float64, e.ranks)
	for r := range procs {
		procs[r] = &job.Process{Rank: r, RankKnown: true, Attempt: 1, Start: 1e18, End: 2e18, LastSeen: 2e18}
		if e.every != nil {
			procs[r].Facts = map[string]string{job.FactSampled: "8 of 32"}
		}
		if e.killed {
			procs[r].End, procs[r].LastSeen = job.NoEnd, 0
		}
		sinks[r] = open(c, procs[r])
	}
	id := uint64(0)
	emit := func(r int, name, cat string, from, to, launch float64, step int64) {
		id++
		at := func(ms float64) int64 { return 1e18 + int64(r)*7e9 + int64(ms*1e6) } // clocks are seconds apart
		sp := job.Span{ID: id, Name: name, Cat: cat, Start: at(from), End: at(to), Step: step, First: job.Unknown, Thread: 1}
		if cat == "device" {
			sp.Launch, sp.Background, sp.Thread = at(launch), true, 1<<30
		}
		sp.SetName(sp.Cat, sp.Name)
		procs[r].Steps.Add(&sp)
		sinks[r].Span(&sp)
	}
	for s := range e.steps {
		type state struct{ begin, f0, f1, b0, ready, launchF, launchB float64 }
		at := make([]state, e.ranks)
		last := 0.0
		for r := range e.ranks {
			st := &at[r]
			in := 1.0
			if e.input != nil {
				in = e.input(r, s)
			}
			emit(r, spans.DataLoading, "", host[r], host[r]+in, 0, job.Unknown)
			host[r] += in
			st.begin = host[r]
			factor := 1 + 0.01*rng.NormFloat64()
			if e.factor != nil {
				factor *= e.factor(r, s)
			}
			l := 1.5
			if e.launch != nil {
				l = e.launch(r)
			}
			// A device cannot finish before its work is launched.
			st.launchF = host[r]
			st.f0 = max(device[r], host[r]+0.02)
			host[r] += l
			st.f1 = max(st.f0+forward*factor, host[r])
			st.launchB, st.b0 = host[r], max(st.f1, host[r])
			host[r] += l
			extra := 0.0
			if e.backward != nil {
				extra = e.backward(r, s)
			}
			st.ready = max(st.b0+backward*factor+extra, host[r])
			last = max(last, st.ready)
		}
		for r := range e.ranks {
			st := at[r]
			seen := s < e.steps-e.unseen && (e.every == nil || s/8%e.every(r) == 0)
			b1 := last + transfer + 0.01*rng.ExpFloat64()
			u0 := max(b1, host[r])
			u1 := u0 + update
			emit(r, spans.ModelForward, "", st.launchF, st.launchB, 0, job.Unknown)
			emit(r, spans.ModelBackward, "", st.launchB, host[r], 0, job.Unknown)
			if !e.hidden || e.launched {
				emit(r, "all_reduce", "comm", host[r]-0.1, host[r]-0.05, 0, job.Unknown) // launch of the collective
			}
			emit(r, spans.OptimizerUpdate, "", host[r], host[r]+0.5, 0, job.Unknown)
			if seen {
				emit(r, "forward", "device", st.f0, st.f1, st.launchF+0.01, job.Unknown)
				emit(r, "backward", "device", st.b0, b1, st.launchB+0.01, job.Unknown)
				if !e.hidden {
					emit(r, "wait", "device", st.ready, b1, host[r]-0.01, job.Unknown)
				}
				emit(r, "step", "device", u0, u1, host[r]+0.01, job.Unknown)
			}
			host[r] += 0.5
			device[r] = u1
			host[r] = max(host[r], device[r]-e.ahead)
			if e.withCheckpoint && s%20 == 19 && r == 0 {
				host[r] = max(host[r], device[r])
				emit(r, spans.CheckpointSaveSync, "", host[r]-5, host[r]+400, 0, job.Unknown)
				host[r] += 400
			}
			emit(r, spans.TrainingIteration, "", st.begin, host[r], 0, int64(s))
			// Evaluation between two iterations does not belong to a step.
			emit(r, "forward", "device", host[r], host[r]+0.1, host[r]+0.001, job.Unknown)
			host[r] += 0.2
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

func times(rank int, by float64) func(int, int) float64 {
	return func(r, _ int) float64 {
		if r == rank {
			return by
		}
		return 1
	}
}

func TestDeviceTimes(t *testing.T) {
	// The host waits for the device once per step, or runs a step ahead.
	for name, ahead := range map[string]float64{"in step": 0, "ahead": 45} {
		even := events{ranks: 4, steps: 80, ahead: ahead}
		with := func(f func(*events)) events {
			e := even
			f(&e)
			return e
		}
		tests := []struct {
			name   string
			e      events
			kind   finding.Kind
			ranks  []int
			cause  string
			reason string
		}{
			{"healthy", even, finding.Fine, nil, "", ""},
			{"a slow device", with(func(e *events) { e.factor = times(2, 1.2) }), finding.SlowRanks, []int{2}, "compute", ""},
			{"a slow backward", with(func(e *events) { e.backward = slower(1, 0, 9) }), finding.SlowRanks, []int{1}, "backward", ""},
			{"of two ranks", with(func(e *events) { e.ranks, e.backward = 2, slower(1, 0, 9) }), finding.SlowRanks, []int{1}, "backward", ""},
			{"the loader of one rank", with(func(e *events) { e.input = slower(3, 1, 80) }), finding.SlowRanks, []int{3}, "input", ""},
			{"a loader that the device hides", with(func(e *events) { e.input = slower(3, 1, 20) }), hiddenBy(ahead), rankIf(ahead, 3), causeIf(ahead, "input"), ""},
			{"a slow host", with(func(e *events) { e.launch = func(r int) float64 { return []float64{1.5, 40, 1.5, 1.5}[r] } }), finding.SlowRanks, []int{1}, "compute", ""}, // launches make both longer
			{"a rank that writes checkpoints", with(func(e *events) { e.withCheckpoint = true }), finding.SlowRanks, []int{0}, "checkpoint", ""},
			{"without the wait, a slow device", with(func(e *events) { e.hidden, e.factor = true, times(2, 1.4) }), finding.Unknown, nil, "", "barrier_hidden"},
			{"without the wait, a slow backward", with(func(e *events) { e.hidden, e.backward = true, slower(1, 0, 9) }), finding.Unknown, nil, "", "barrier_hidden"},
			{"without the wait, healthy", with(func(e *events) { e.hidden = true }), finding.Unknown, nil, "", "barrier_hidden"},
			{"collectives on another stream", with(func(e *events) { e.hidden, e.launched, e.factor = true, true, times(2, 1.4) }), finding.Unknown, nil, "", "barrier_hidden"},
			{"killed before the last events were asked", with(func(e *events) { e.killed, e.unseen = true, 5 }), finding.Fine, nil, "", ""},
			{"no events after half of the steps", with(func(e *events) { e.unseen, e.backward = 40, slower(1, 0, 9) }), finding.SlowRanks, []int{1}, "backward", ""},
		}
		for _, tt := range tests {
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				a := tt.e.attempt(t)
				if !a.Device {
					t.Error("Device is false, want true: the times are those of devices")
				}
				v := a.State.Verdict()
				if v.Kind != tt.kind || !slices.Equal(v.Ranks, tt.ranks) || v.Cause != tt.cause || v.Reason != tt.reason {
					t.Errorf("got %s %v %s %s, want %s %v %s %s: %s\n%+v", v.Kind, v.Ranks, v.Cause, v.Reason, tt.kind, tt.ranks, tt.cause, tt.reason, v.Sentence, v.Coverage)
				}
			})
		}
	}
}

// TestSampledDeviceTimes checks that steps without events are unknown: those
// with events decide, in single steps and in windows.
func TestSampledDeviceTimes(t *testing.T) {
	for name, ahead := range map[string]float64{"in step": 0, "ahead": 45} {
		even := events{ranks: 4, steps: 3200, ahead: ahead, every: func(rank int) int { return []int{4, 8, 4, 4}[rank] }}
		with := func(f func(*events)) events {
			e := even
			f(&e)
			return e
		}
		tests := []struct {
			name  string
			e     events
			kind  finding.Kind
			ranks []int
			cause string
		}{
			{"healthy", even, finding.Fine, nil, ""},
			{"a slow device", with(func(e *events) { e.factor = times(2, 1.2) }), finding.SlowRanks, []int{2}, "compute"},
			{"a slow backward", with(func(e *events) { e.backward = slower(1, 0, 9) }), finding.SlowRanks, []int{1}, "backward"},
			{"the loader of one rank", with(func(e *events) { e.input = slower(3, 1, 80) }), finding.SlowRanks, []int{3}, "input"},
			{"killed", with(func(e *events) { e.killed, e.unseen = true, 5 }), finding.Fine, nil, ""},
		}
		for _, tt := range tests {
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				a := tt.e.attempt(t)
				v := a.State.Verdict()
				if v.Kind != tt.kind || !slices.Equal(v.Ranks, tt.ranks) || v.Cause != tt.cause || v.Coverage.Steps != 7*50-1 {
					t.Errorf("%s %v %s, %d steps: %s, want %s %v %s, 349 steps", v.Kind, v.Ranks, v.Cause, v.Coverage.Steps, v.Sentence, tt.kind, tt.ranks, tt.cause)
				}
				if ahead > 0 {
					return // windows do not show when a host is ahead
				}
				a.State.Window()
				w := a.State.Verdict()
				if w.Kind != tt.kind || !slices.Equal(w.Ranks, tt.ranks) || w.Cause != tt.cause {
					t.Errorf("windows: %s %v %s: %s, want %s %v %s", w.Kind, w.Ranks, w.Cause, w.Sentence, tt.kind, tt.ranks, tt.cause)
				}
			})
		}
	}
}

func hiddenBy(ahead float64) finding.Kind {
	if ahead > 0 {
		return finding.Fine
	}
	return finding.SlowRanks
}

func rankIf(ahead float64, r int) []int {
	if ahead > 0 {
		return nil
	}
	return []int{r}
}

func causeIf(ahead float64, cause string) string {
	if ahead > 0 {
		return ""
	}
	return cause
}
