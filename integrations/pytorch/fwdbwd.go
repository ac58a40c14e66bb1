package pytorch

import (
	"math"

	"github.com/trainspan/trainspan/internal/kineto"
	"github.com/trainspan/trainspan/internal/spill"
)

// Autograd numbers the operators of a thread as it records them, and puts the
// number of the forward operator, and of its thread, on what it runs in
// backward. Operators inside an operator have the same number; the one that
// started last made the backward node. The profiler draws its fwdbwd arrows
// by that rule, which holds in every version; the arrows are in few files.

// tie is the place of a row in a pair of forward and backward.
type tie struct {
	seq      int64
	id       uint64 // of the event of the forward operator
	backward bool
	name     string // of the forward operator
	ord      int64  // of the forward operator
	step     int32
}

// bySequence puts the forward operators of a sequence number, in order of
// their start, before what backward runs for it.
func bySequence(r *row) spill.Key {
	if r.flags&flagBackward != 0 {
		return spill.Key{First: r.c, Second: math.MaxInt64}
	}
	return spill.Key{First: r.c, Second: r.start}
}

// ownThread reports whether all backward in the file belongs to one thread of
// forward. The numbers of several threads are the same ones, and the trace does
// not say which of its threads is which.
func (p *process) ownThread() bool { return len(p.fwdThreads) == 1 }

// sequenced keeps an operator that may be part of a pair.
func (l *linker) sequenced(p *process, f *frame) error {
	if f.r.c == 0 || f.r.kind != kineto.KindCPUOp || !p.ownThread() || f.recompute {
		return nil
	}
	r := &l.out
	*r = row{c: f.r.c, ord: f.ord, step: f.step, lane: f.r.lane, region: f.region, start: f.r.start, end: f.r.end, name: f.r.name, text: f.r.text}
	if f.r.launch != 0 {
		r.flags = flagBackward
	}
	return p.pairs.Add(r)
}

// pairUp finds the forward operator of every backward operator and keeps both
// in the order in which the events are written. The forward operator gets a
// number here, which becomes an id later: backward may be written first.
func (p *process) pairUp() error {
	if len(p.fwdThreads) > 1 {
		p.report.cannot("which forward operator one of backward belongs to: several threads ran forward and their sequence numbers are the same")
	}
	it := p.pairs.Iter()
	var fwd, out row
	have, alone, number := false, false, int64(-1)
	for r := it.Next(); r != nil; r = it.Next() {
		if !have || fwd.c != r.c {
			have, alone, number = r.flags&flagBackward == 0, true, -1
			fwd = *r
			continue
		}
		if r.flags&flagBackward == 0 {
			// The same number on two threads names no operator for sure.
			alone = alone && r.lane == fwd.lane
			fwd = *r
			continue
		}
		if fwd.flags&flagBackward != 0 || !alone {
			continue
		}
		if number < 0 {
			number = p.tied
			p.tied++
			out = row{ord: fwd.ord, c: fwd.c, corr: number, step: -1}
			if err := p.ties.Add(&out); err != nil {
				return err
			}
		}
		p.report.BackwardTied++
		out = row{flags: flagBackward, ord: r.ord, c: r.c, corr: number, launch: fwd.ord, step: fwd.step, region: fwd.region, op: fwd.name, text: fwd.text}
		if err := p.ties.Add(&out); err != nil {
			return err
		}
	}
	p.pairs.Close()
	return it.Err()
}

// tieUp gives a frame its part of a pair.
func (e *emitter) tieUp(f *frame) {
	for e.nextTie != nil && e.nextTie.ord < f.ord {
		e.nextTie = e.ties.Next()
	}
	r := e.nextTie
	if r == nil || r.ord != f.ord {
		return
	}
	f.tie = &tie{seq: r.c - 1, id: e.ids.of(r.corr), backward: r.flags&flagBackward != 0, ord: r.launch, step: r.step}
	if f.tie.backward && r.region != 0 {
		f.fwdRegion = r.region
	}
	if !f.tie.backward {
		f.id = f.tie.id
	} else if f.tie.name = r.text; r.op != 0 {
		f.tie.name = e.p.names.text[r.op]
	}
	f.tie.name = ref(f.tie.name)
	e.nextTie = e.ties.Next()
}

// tied adds the arguments of a pair.
func (e *emitter) tied(f *frame) {
	if f.tie == nil {
		return
	}
	e.int("seq", f.tie.seq)
	if f.tie.backward {
		e.int("fwd_id", int64(f.tie.id))
		e.str("fwd_op", f.tie.name)
	}
}
