// Package fromjob converts the records of a job, as package job assembles them, to the steps
// that package straggler judges.
//
//	c := fromjob.New(nil)
//	accounts, err := account.Collect(set, c.Reader)
//	...
//	for _, a := range c.Attempts(accounts[0].Job) {
//		fmt.Println(a.Number, a.State.Verdict().Sentence)
//	}
//
// A step of a rank lasts from the end of one training iteration to the end of the next. The
// names of spans determine its phases: data loading, forward, backward, the optimizer and
// checkpoints of the training thread, transfers to the device (category device), and
// collectives (category comm, or with the name of one) of all threads. If the argument pg of
// a collective names a process group smaller than the job, the collective belongs to that
// group. The tokens or samples of an iteration are its amount of work.
package fromjob

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/trainspan/trainspan/internal/analyze/account"
	"github.com/trainspan/trainspan/internal/analyze/meet"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/columns"
	"github.com/trainspan/trainspan/internal/platform/extsort"
)

// Attempt holds the steps of one attempt of a job.
type Attempt struct {
	Number int
	State  *straggler.State
	// Device reports whether the steps contain device work instead of host work.
	Device bool
	// Updates counts the optimizer updates of the rank with the most.
	Updates Updates
}

// firstHeartbeat is the time in nanoseconds after which a process must have a heartbeat on disk: the first
// one is written after ten seconds. A missing heartbeat in a shorter process does not imply that its writer
// has none.
const firstHeartbeat = int64(15 * time.Second)

// Attempts returns the steps of a job by attempt, in order. of returns the steps of a process, or nil if it
// has none. Attempts may be called again, also after processes were renumbered.
func Attempts(j *job.Job, of func(*job.Process) *Steps) []Attempt {
	byNumber, ends := make(map[int]*Attempt), interrupts(j)
	for _, p := range j.Processes {
		s := of(p)
		if s == nil {
			continue
		}
		a := byNumber[p.Attempt]
		if a == nil {
			a = &Attempt{Number: p.Attempt, State: straggler.New(&straggler.Options{WorldSize: j.RanksIn(p.Attempt), Spill: s.spill})}
			byNumber[p.Attempt] = a
		}
		info := straggler.Rank{Host: p.KnownHost(), Ended: p.End != job.NoEnd && !failed(p), Cut: p.Cut}
		if p.Heartbeats || p.LastSeen-p.Start < firstHeartbeat {
			info.LastSeen = p.LastSeen
		}
		if at, ok := ends[place{p.Attempt, p.Host}]; ok {
			info.LastSeen = min(info.LastSeen, at)
		}
		a.State.AddRank(p.Rank, info, s.state)
		a.Device = a.Device || s.devices
		if s.updates.Count > a.Updates.Count {
			a.Updates = s.updates
		}
	}
	var out []Attempt
	for _, a := range slices.SortedFunc(maps.Values(byNumber), func(a, b *Attempt) int { return cmp.Compare(a.Number, b.Number) }) {
		out = append(out, *a)
	}
	return out
}

// Collector collects the steps of all processes of a set.
type Collector struct {
	spill *extsort.Blocks
	mu    sync.Mutex
	of    map[*job.Process]*Steps
}

// New returns an empty Collector. Packed steps are written to spill; if it is nil they stay in memory.
func New(spill *extsort.Blocks) *Collector {
	return &Collector{spill: spill, of: make(map[*job.Process]*Steps)}
}

// Reader returns the reader of a process, for [account.OpenSink]. It is safe for concurrent use.
func (c *Collector) Reader(p *job.Process) account.Reader {
	r, steps := NewReader(p, c.spill)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[p] = steps
	return r
}

// Attempts returns the steps of a job by attempt. The set must have been read.
func (c *Collector) Attempts(j *job.Job) []Attempt {
	return Attempts(j, func(p *job.Process) *Steps { return c.of[p] })
}

// Corrections returns what the steps show about clocks and process groups: see [straggler.State.Correction].
func Corrections(attempts []Attempt) meet.Corrections {
	out := make(meet.Corrections)
	for i := range attempts {
		if c := attempts[i].State.Correction(); c.Clocks != nil || c.Strides != nil {
			out[attempts[i].Number] = c
		}
	}
	return out
}

// AppendBinary implements [encoding.BinaryAppender]. The sink must be closed.
func (s *Steps) AppendBinary(dst []byte) ([]byte, error) {
	state, err := s.state.AppendBinary(nil)
	if err != nil {
		return dst, err
	}
	dst = columns.AppendBool(dst, s.devices)
	dst = s.updates.append(dst)
	return columns.AppendBytes(dst, state), nil
}

// UnmarshalBinary implements [encoding.BinaryUnmarshaler].
func (s *Steps) UnmarshalBinary(src []byte) error {
	r := columns.NewReader(src)
	out := NewSteps(s.spill)
	out.devices = r.Bool()
	out.updates.read(r)
	state := r.Bytes()
	if r.Err() != nil || r.Len() != 0 {
		return fmt.Errorf("straggler: the steps of a process: %w", columns.ErrDamaged)
	}
	if err := out.state.UnmarshalBinary(state); err != nil {
		return err
	}
	*s = *out
	return nil
}

// Len returns the number of steps; each window counts as one step.
func (s *Steps) Len() int { return s.state.Len() }

// Windows returns a copy with windows in place of steps: see [straggler.State.Window].
func (s *Steps) Windows() *Steps {
	out := NewSteps(s.spill)
	out.devices, out.updates = s.devices, s.updates
	out.state.Merge(s.state)
	out.state.Window()
	return out
}
