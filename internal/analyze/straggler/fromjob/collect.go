// Package fromjob gives package straggler the steps of a job that package job
// has put together.
//
//	c := fromjob.New(nil)
//	jobs, err := set.Read(c.Open)
//	...
//	for _, a := range c.Attempts(jobs[0]) {
//		fmt.Println(a.Number, a.State.Verdict().Sentence)
//	}
//
// A step of a rank is what it did from the end of one training iteration to
// the end of the next. What is known of it comes from the names of the spans:
// data loading, forward, backward, the optimizer and checkpoints of the
// training thread, transfers to the device (category device) and collectives
// (category comm, or named like one) of all threads. A collective whose
// argument pg names a process group smaller than the job is one of that group;
// tokens or samples of an iteration are its work.
package fromjob

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/trainspan/trainspan/internal/analyze/straggler"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/columns"
	"github.com/trainspan/trainspan/internal/platform/extsort"
)

// Attempt is the steps of one attempt of a job.
type Attempt struct {
	Number int
	State  *straggler.State
	// Late counts spans of steps that had been handed on when they came: only
	// in a file of very many spans that is far from the order of time.
	Late int64
	// Device says that steps are what the devices of ranks did, not their hosts.
	Device bool
	// Updates are those of the rank with the most.
	Updates Updates
}

// firstHeartbeat is when the first heartbeat of a process must be there, in
// nanoseconds: it is written after ten seconds, and then on disk within a few.
// That a shorter attempt has none says nothing about who writes its files.
const firstHeartbeat = int64(15 * time.Second)

// Attempts returns the steps of a job by attempt; of gives those of each process,
// nil where there are none. It can be asked for again, also where the processes
// have other numbers then.
func Attempts(j *job.Job, of func(*job.Process) *Steps) []Attempt {
	byNumber, ends := make(map[int]*Attempt), interrupts(j)
	for _, p := range j.Processes {
		s := of(p)
		if s == nil {
			continue
		}
		a := byNumber[p.Attempt]
		if a == nil {
			a = &Attempt{Number: p.Attempt, State: straggler.New(&straggler.Options{WorldSize: j.Ranks, Spill: s.spill})}
			byNumber[p.Attempt] = a
		}
		info := straggler.Rank{Host: p.Host, Ended: p.End != job.NoEnd && !failed(p), Cut: p.Cut}
		if p.Heartbeats || p.LastSeen-p.Start < firstHeartbeat {
			info.LastSeen = p.LastSeen
		}
		if at, ok := ends[place{p.Attempt, p.Host}]; ok {
			info.LastSeen = min(info.LastSeen, at)
		}
		a.State.AddRank(p.Rank, info, s.state)
		a.Late += s.late
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

// Collector takes the steps of all processes of a set.
type Collector struct {
	spill *extsort.Blocks
	mu    sync.Mutex
	of    map[*job.Process]*Steps
}

// New makes an empty Collector. Steps that memory should not hold go to spill, which may be nil.
func New(spill *extsort.Blocks) *Collector {
	return &Collector{spill: spill, of: make(map[*job.Process]*Steps)}
}

// Open makes the sink of a process, for [job.Set.Read]. It may be called
// concurrently.
func (c *Collector) Open(p *job.Process) job.Sink {
	s, steps := OpenSink(p, c.spill)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[p] = steps
	return s
}

// Attempts returns the steps of a job by attempt, once the set has been read.
func (c *Collector) Attempts(j *job.Job) []Attempt {
	return Attempts(j, func(p *job.Process) *Steps { return c.of[p] })
}

// ClockTable says, by attempt and rank, by how many nanoseconds a clock is to be set
// forward. A rank that is not in it keeps its clock, and nil sets none.
type ClockTable map[int]map[int]int64

// Clocks finds the attempts whose clocks differ by more than those of hosts that are
// kept in time: see [straggler.State.Clocks]. It is nil where none do.
func Clocks(attempts []Attempt) ClockTable {
	var out ClockTable
	for i := range attempts {
		if c := attempts[i].State.Clocks(); c != nil {
			if out == nil {
				out = make(ClockTable)
			}
			out[attempts[i].Number] = c
		}
	}
	return out
}

// Of is by how much the clock of a process is to be set forward.
func (t ClockTable) Of(p *job.Process) int64 { return t[p.Attempt][p.Rank] }

// AppendBinary implements [encoding.BinaryAppender], once the sink is closed.
func (s *Steps) AppendBinary(dst []byte) ([]byte, error) {
	state, err := s.state.AppendBinary(nil)
	if err != nil {
		return dst, err
	}
	dst = binary.AppendUvarint(dst, uint64(s.late))
	dst = columns.AppendBool(dst, s.devices)
	dst = s.updates.append(dst)
	return columns.AppendBytes(dst, state), nil
}

// UnmarshalBinary implements [encoding.BinaryUnmarshaler].
func (s *Steps) UnmarshalBinary(src []byte) error {
	r := columns.NewReader(src)
	out := NewSteps(s.spill)
	out.late = int64(r.Small(1<<62 - 1))
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

// Len is how many steps there are, those in windows as well.
func (s *Steps) Len() int { return s.state.Len() }

// Windows returns the same with windows in place of steps: see [straggler.State.Window].
func (s *Steps) Windows() *Steps {
	out := NewSteps(s.spill)
	out.late, out.devices, out.updates = s.late, s.devices, s.updates
	out.state.Merge(s.state)
	out.state.Window()
	return out
}
