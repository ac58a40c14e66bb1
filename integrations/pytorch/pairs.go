package pytorch

import "github.com/trainspan/trainspan/internal/kineto"

// Autograd numbers the operators of a thread as it records them, and puts the
// number of the forward operator, and of its thread, on what it runs in
// backward. Operators inside an operator have the same number; the one that
// started last made the backward node. The profiler draws its fwdbwd arrows
// by that rule, which holds in every version; the arrows are in few files.

// sequenced keeps an operator that may be part of a pair.
func (l *linker) sequenced(f *frame) error {
	if f.r.c == 0 || f.r.kind != kineto.KindCPUOp || !l.ownThread() || f.recompute {
		return nil
	}
	r := &l.out
	*r = row{c: f.r.c, ord: f.ord, step: f.step, lane: f.r.lane, region: f.region, start: f.r.start, end: f.r.end, name: f.r.name, text: f.r.text}
	if f.r.launch != 0 {
		r.flags = flagBackward
	}
	return l.rows.pairs.Add(r)
}

// pairUp finds the forward operator of every backward operator and keeps both
// in the order in which the events are written. The forward operator gets a
// number here, which becomes an id later: backward may be written first.
func (l *linker) pairUp() error {
	if len(l.fwdThreads) > 1 {
		l.report.cannot("which forward operator one of backward belongs to: several threads ran forward and their sequence numbers are the same")
	}
	it := l.rows.pairs.Iter()
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
			number = l.tied
			l.tied++
			out = row{ord: fwd.ord, c: fwd.c, corr: number, step: -1}
			if err := l.rows.ties.Add(&out); err != nil {
				return err
			}
		}
		l.report.BackwardTied++
		out = row{flags: flagBackward, ord: r.ord, c: r.c, corr: number, launch: fwd.ord, step: fwd.step, region: fwd.region, op: fwd.name, text: fwd.text}
		if err := l.rows.ties.Add(&out); err != nil {
			return err
		}
	}
	_ = l.rows.pairs.Close() // what it held was read
	return it.Err()
}
