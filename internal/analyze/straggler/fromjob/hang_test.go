package fromjob_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/analyze/straggler/fromjob"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// told is a sink that changes the spans it forwards.
type told struct {
	job.Sink
	span func(to job.Sink, sp *job.Span)
}

func (t told) Span(sp *job.Span) { t.span(t.Sink, sp) }

// hangs returns the verdict on a job whose rank 2 stops in backward. wrap may change a process and wrap its
// sink.
func hangs(t *testing.T, watchdog float64, wrap func(p *job.Process, to job.Sink) job.Sink, starts ...*rundir.Run) *straggler.Verdict {
	t.Helper()
	j := simjob.Job{Layout: simjob.DP, Ranks: 4, Steps: 40, Seed: 7, Faults: []simjob.Fault{{What: simjob.Hang, Ranks: []int{2}, Phase: simjob.Backward, From: 36, Watchdog: watchdog}}}
	c := fromjob.New(nil)
	job, err := j.Feed(func(p *job.Process) job.Sink { return wrap(p, open(c, p)) })
	if err != nil {
		t.Fatal(err)
	}
	job.Starts = starts
	return c.Attempts(job)[0].State.Verdict()
}

// TestHangThatWasInterrupted: if an exception or the end of the process ended a span, the process is taken to
// be still in it. A span whose start was not recorded before its end did end.
func TestHangThatWasInterrupted(t *testing.T) {
	for name, tt := range map[string]struct {
		before bool // the start of open spans was recorded
		error  bool // the process ended normally with an exception
		kind   finding.Kind
	}{
		"killed":            {true, false, finding.Hang},
		"an exception":      {true, true, finding.Hang},
		"spans of a moment": {false, false, finding.Fine},
		"and an exception":  {false, true, finding.Fine},
	} {
		t.Run(name, func(t *testing.T) {
			v := hangs(t, 30000, func(p *job.Process, to job.Sink) job.Sink {
				end := p.LastSeen
				if tt.error {
					p.End, p.Failures = end, []job.Failure{{Time: end + 50e6, Type: "KeyboardInterrupt"}}
				}
				return told{to, func(to job.Sink, sp *job.Span) {
					if sp.End != job.NoEnd || sp.Class == vocab.ClassFrame || sp.Class == vocab.ClassStep {
						to.Span(sp)
						return
					}
					if tt.before {
						to.Span(sp)
					}
					ended := *sp
					ended.End = end
					to.Span(&ended)
				}}
			})
			if (v.Kind == finding.Hang) != (tt.kind == finding.Hang) || v.Kind == finding.Hang && !slices.Equal(v.Ranks, []int{2}) {
				t.Errorf("verdict %q, want a hang of rank 2: %v", v.Sentence, tt.kind == finding.Hang)
			}
		})
	}
}

// TestInterruptedWhileOneWaits: if a rank was interrupted and the others noticed its end later, that is not a
// hang. If they had waited before, it is one.
func TestInterruptedWhileOneWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		first int64 // nanoseconds between the interrupt of rank 2 and that of the others
		host  string
		hang  bool
	}{
		"the others waited for its end":       {30e9 - 20e6, "", false},
		"they came after it":                  {40e9, "", false},
		"they waited before":                  {1e9, "", true},
		"on a host whose clock is hours away": {3600e9, "elsewhere", true},
	} {
		t.Run(name, func(t *testing.T) {
			v := hangs(t, 30000, func(p *job.Process, to job.Sink) job.Sink {
				f := job.Failure{Time: p.LastSeen, Type: "RuntimeError", Text: "Connection closed by peer"}
				if p.Rank == 2 {
					f = job.Failure{Time: p.LastSeen - tt.first, Type: "KeyboardInterrupt"}
					p.Host = cmp.Or(tt.host, p.Host)
				}
				p.Failures = []job.Failure{f}
				return to
			})
			if (v.Kind == finding.Hang) != tt.hang {
				t.Errorf("verdict %q, want a hang: %v", v.Sentence, tt.hang)
			}
		})
	}
}

// TestAskedToEndWhileOneWaits: after a signal that asks for the end, ranks wait for one that has left. That is no hang
// unless they had waited before, or go on for long after the signal.
func TestAskedToEndWhileOneWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		asked int64 // nanoseconds between the signal and the end
		alive time.Duration
		host  string
		hang  bool
	}{
		"they waited after it":                {30e9 - 20e6, 0, "", false},
		"they waited before":                  {1e9, 0, "", true},
		"the signal was on another host":      {30e9, 0, "elsewhere", true},
		"the start ran on for eleven minutes": {30e9, 11 * time.Minute, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			start := new(rundir.Run)
			v := hangs(t, 30000, func(p *job.Process, to job.Sink) job.Sink {
				at := time.Unix(0, p.LastSeen-tt.asked)
				start.Host, start.Started, start.Seen, start.StoppedAt = cmp.Or(tt.host, p.Host), time.Unix(0, p.Start), at.Add(max(tt.alive, time.Minute)), &at
				if p.Rank == 2 {
					p.End = p.LastSeen
				}
				return to
			}, start)
			if (v.Kind == finding.Hang) != tt.hang {
				t.Errorf("verdict %q, want a hang: %v", v.Sentence, tt.hang)
			}
		})
	}
}

// TestHangInAPause: a rank that evaluates, saves, compiles or starts up may take long. Background work and
// finished pauses do not excuse a hang.
func TestHangInAPause(t *testing.T) {
	for name, tt := range map[string]struct {
		cat, name  string
		background bool
		ended      bool
		hang       bool
	}{
		"an evaluation":               {"pipeline", "evaluate", false, false, false},
		"a checkpoint":                {"checkpoint", "capture", false, false, false},
		"a compilation":               {"startup", "compile", false, false, false},
		"a checkpoint behind it":      {"checkpoint", "capture.finalize", true, false, true},
		"an evaluation that is over":  {"pipeline", "evaluate", false, true, true},
		"a span of the program's own": {"own", "thing", false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			v := hangs(t, 120000, func(p *job.Process, to job.Sink) job.Sink {
				if p.Rank == 2 {
					sp := job.Span{ID: 1 << 40, Start: p.LastSeen - 100e9, End: job.NoEnd, Step: job.Unknown, Epoch: job.Unknown, First: job.Unknown, Background: tt.background}
					sp.SetName(tt.cat, tt.name)
					to.Span(&sp)
					if tt.ended {
						sp.End = sp.Start + 1e9
						to.Span(&sp)
					}
				}
				return to
			})
			if (v.Kind == finding.Hang) != tt.hang {
				t.Errorf("verdict %q, want a hang: %v", v.Sentence, tt.hang)
			}
		})
	}
}
