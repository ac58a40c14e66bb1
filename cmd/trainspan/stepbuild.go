package main

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/dataset"
	"github.com/trainspan/trainspan/internal/columns"
	runs "github.com/trainspan/trainspan/internal/run"
	"github.com/trainspan/trainspan/internal/spill"
	"github.com/trainspan/trainspan/internal/vocab"
)

// The phases of a step, as columns.
const (
	phaseData = iota
	phaseCopies
	phaseForward
	phaseBackward
	phaseOptimizer
	phaseComm
	phaseCheckpoint
	phaseCount
)

var phaseNames = [phaseCount]string{"data", "copies", "forward", "backward", "optimizer", "comm", "checkpoint"}

// phaseOf are the phases of classes.
var phaseOf = map[vocab.Class]int{
	vocab.ClassInputWait:      phaseData,
	vocab.ClassInputWork:      phaseData,
	vocab.ClassTransfer:       phaseCopies,
	vocab.ClassForward:        phaseForward,
	vocab.ClassBackward:       phaseBackward,
	vocab.ClassOptimizer:      phaseOptimizer,
	vocab.ClassCollective:     phaseComm,
	vocab.ClassCheckpointSave: phaseCheckpoint,
	vocab.ClassCheckpointLoad: phaseCheckpoint,
}

// stepRow is one step of one process, in nanoseconds.
type stepRow struct {
	proc       uint32 // index of the process
	step       int64  // its number in the job or, where that is not known, in the process
	raw        int64  // as recorded, -1 without one
	epoch      int64  // -1 without one
	start, dur int64  // dur is -1 of one that never ended
	phases     [phaseCount]int64
}

// stepTable collects the steps of the processes of a set, in a file when there are
// many.
type stepTable struct {
	mu    sync.Mutex
	procs []*runs.Process
	found *spill.Sorter[stepRow] // by process
}

const stepMemory = 32 << 20

func newStepTable() *stepTable {
	return &stepTable{found: spill.New(spill.Codec[stepRow]{
		Append: appendStep, Decode: decodeStep, Key: func(r *stepRow) spill.Key { return spill.Key{First: int64(r.proc)} },
	}, stepMemory, "")}
}

func (t *stepTable) close() { _ = t.found.Close() } // nothing in it is needed any more

// open makes the sink of a process.
func (t *stepTable) open(p *runs.Process) runs.Sink {
	return &stepSink{to: t, proc: p, spans: spill.New(spill.Codec[phaseSpan]{
		Append: appendPhase, Decode: decodePhase, Key: func(s *phaseSpan) spill.Key { return spill.Key{First: s.start, Second: -s.dur} },
	}, stepMemory, "")}
}

// sorted returns the rows of jobs by attempt, step and rank to fn.
func (t *stepTable) sorted(keep func(*runs.Process, *stepRow) bool, fn func(*runs.Process, *stepRow) error) (err error) {
	all := spill.New(spill.Codec[stepRow]{Append: appendStep, Decode: decodeStep, Key: func(r *stepRow) spill.Key {
		p := t.procs[r.proc]
		return spill.Key{Group: uint32(p.Attempt), First: r.step, Second: int64(p.Rank)<<32 | int64(r.proc)}
	}}, stepMemory, "")
	defer func() { err = errors.Join(err, all.Close()) }()
	it := t.found.Iter()
	for r := it.Next(); r != nil; r = it.Next() {
		if p := t.procs[r.proc]; p != nil && keep(p, r) {
			if err := all.Add(r); err != nil {
				return err
			}
		}
	}
	if it.Err() != nil {
		return it.Err()
	}
	it = all.Iter()
	for r := it.Next(); r != nil; r = it.Next() {
		if err := fn(t.procs[r.proc], r); err != nil {
			return err
		}
	}
	return it.Err()
}

// table returns the steps of a job as rows of a data set.
func (t *stepTable) table(j *runs.Job, add func(*dataset.Step) error) error {
	of := make(map[*runs.Process]bool, len(j.Processes))
	for _, p := range j.Processes {
		of[p] = true
	}
	optional := func(n int64) *int64 {
		if n < 0 {
			return nil
		}
		return &n
	}
	return t.sorted(func(p *runs.Process, _ *stepRow) bool { return of[p] }, func(p *runs.Process, r *stepRow) error {
		row := dataset.Step{
			Attempt: int32(p.Attempt), PID: p.PID, Step: r.step, Raw: optional(r.raw), Epoch: optional(r.epoch), Start: r.start / 1000, Dur: optional(r.dur),
			Rule: p.Steps.Rule.String(), Data: r.phases[phaseData], Copies: r.phases[phaseCopies], Forward: r.phases[phaseForward],
			Backward: r.phases[phaseBackward], Optimizer: r.phases[phaseOptimizer], Comm: r.phases[phaseComm], Checkpoint: r.phases[phaseCheckpoint],
		}
		if p.RankKnown {
			rank := int32(p.Rank)
			row.Rank = &rank
		}
		return add(&row)
	})
}

// phaseSpan is a span of a phase.
type phaseSpan struct {
	start, dur, thread int64
	step               int64 // that a collective names: a device runs it later
	phase              int
}

// stepSink collects the phases of the steps of one process.
type stepSink struct {
	to    *stepTable
	proc  *runs.Process
	spans *spill.Sorter[phaseSpan]
	span  phaseSpan // that is added
	err   error
}

func (s *stepSink) Event(*runs.Event) {}

func (s *stepSink) Span(sp *runs.Span) {
	phase, counts := phaseOf[sp.Class]
	if !counts || sp.End == runs.NoEnd || sp.Background && phase != phaseComm || s.err != nil {
		return
	}
	s.span = phaseSpan{sp.Start, sp.End - sp.Start, sp.Thread, sp.Step, phase}
	s.err = s.spans.Add(&s.span)
}

// Close gives each step the spans that begin in it, and the collectives that name
// it. What lies inside of another span of its phase is not counted again.
func (s *stepSink) Close() error {
	steps := s.proc.Steps.All()
	rows := make([]stepRow, len(steps))
	named := make(map[int64]int, len(steps))
	for i := range steps {
		st := &steps[i]
		rows[i] = stepRow{step: s.proc.Steps.Shown(i), raw: max(st.Raw, runs.Unknown), epoch: st.Epoch, start: st.Start, dur: st.End - st.Start}
		if st.End == runs.NoEnd {
			rows[i].dur = -1
		}
		named[st.Raw] = i
	}
	if len(named) < len(steps) {
		clear(named) // they do not say which
	}
	type place struct {
		thread int64
		phase  int
	}
	until := make(map[place]int64)
	at := -1
	it := s.spans.Iter()
	for sp := it.Next(); sp != nil; sp = it.Next() {
		for at+1 < len(steps) && steps[at+1].Start <= sp.start {
			at++
		}
		to := at
		if i, ok := named[sp.step]; ok && sp.phase == phaseComm && sp.step >= 0 {
			to = i
		} else if at < 0 || sp.start >= steps[at].End {
			continue
		}
		if k := (place{sp.thread, sp.phase}); sp.start+sp.dur > until[k] {
			rows[to].phases[sp.phase] += sp.dur
			until[k] = sp.start + sp.dur
		}
	}
	err := errors.Join(s.err, it.Err(), s.spans.Close())
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	for i := range rows {
		rows[i].proc = uint32(len(s.to.procs))
		if err == nil {
			err = s.to.found.Add(&rows[i])
		}
	}
	if old := slices.Index(s.to.procs, s.proc); old >= 0 {
		s.to.procs[old] = nil // its file was read again
	}
	s.to.procs = append(s.to.procs, s.proc)
	return err
}

func appendStep(dst []byte, r *stepRow) []byte {
	for _, n := range [...]int64{int64(r.proc), r.step, r.raw, r.epoch, r.start, r.dur} {
		dst = binary.AppendVarint(dst, n)
	}
	for _, n := range r.phases {
		dst = binary.AppendVarint(dst, n)
	}
	return dst
}

func decodeStep(src []byte, r *stepRow) error {
	n := columns.NewReader(src)
	*r = stepRow{proc: uint32(n.Int()), step: n.Int(), raw: n.Int(), epoch: n.Int(), start: n.Int(), dur: n.Int()}
	for i := range r.phases {
		r.phases[i] = n.Int()
	}
	return n.Err()
}

func appendPhase(dst []byte, s *phaseSpan) []byte {
	for _, n := range [...]int64{s.start, s.dur, s.thread, s.step, int64(s.phase)} {
		dst = binary.AppendVarint(dst, n)
	}
	return dst
}

func decodePhase(src []byte, s *phaseSpan) error {
	n := columns.NewReader(src)
	*s = phaseSpan{n.Int(), n.Int(), n.Int(), n.Int(), int(n.Int())}
	return n.Err()
}
