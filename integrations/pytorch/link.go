package pytorch

import (
	"cmp"
	"context"
	"slices"

	"github.com/trainspan/trainspan/internal/kineto"
)

// engineGap is how long the autograd engine may pause inside one backward.
const engineGap = 1_000_000 // ns

// linker is the first sweep: it numbers the host rows, ties every launch to
// what launched it, sums the host's self time, and finds backward envelopes.
type linker struct {
	*process
	env  envelope
	open bool
	out  row   // being added to a sorter
	part share // the same
}

func (l *linker) push(s *sweep, f *frame) error {
	if f.level == 1 && f.r.kind != kineto.KindOverhead && f.r.kind != kineto.KindPython {
		l.totalSelf += f.r.end - f.r.start
	}
	if f.clamped > 0 {
		l.report.Clamped++
	}
	l.levels[f.spanLevel()]++
	f.note(&l.regions)
	up := s.up()
	if f.isHostCollective(up, &l.findings) {
		l.comms.add(f.comm, &f.r, &l.timeline, f.step, true)
		l.lanes.communicates(f.r.lane)
	}
	l.moduleFrames = l.moduleFrames || f.isModule()
	if f.engine && (up == nil || !up.engine) {
		l.engine(f)
	}
	if err := l.sequenced(f); err != nil {
		return err
	}
	if (f.r.kind == kineto.KindRuntime || f.r.kind == kineto.KindDriver) && f.r.corr != 0 {
		return l.launch(s, f)
	}
	return nil
}

// engine extends the current backward envelope of the lane, or starts one.
func (l *linker) engine(f *frame) {
	if l.open && f.step == l.env.step && f.r.start-l.env.end < engineGap {
		l.env.end = max(l.env.end, f.r.end)
		return
	}
	l.flush()
	l.env, l.open = envelope{start: f.r.start, end: f.r.end, lane: f.r.lane, step: f.step}, true
}

func (l *linker) flush() {
	if l.open && len(l.envelopes) < 1<<20 {
		l.envelopes = append(l.envelopes, l.env)
	}
	l.open = false
}

// launch puts what a device row can learn from its launch into the join.
func (l *linker) launch(s *sweep, f *frame) error {
	r := &l.out
	*r = row{
		flags: flagLink, seq: f.r.seq, kind: f.r.kind, corr: f.r.corr, ord: f.ord, step: f.step, launch: f.r.start, launchEnd: f.r.end,
		region: f.region, graph: f.graph, a: f.r.a, lane: f.r.lane, extra: f.r.extra,
	}
	if f.backward {
		r.flags |= flagBackward
	}
	for i := len(s.stack) - 2; i >= 0; i-- {
		up := &s.stack[i]
		if up.r.kind == kineto.KindCPUOp || up.r.kind == kineto.KindUserAnnotation {
			r.op, r.text = up.r.name, ref(up.r.text)
			if up.own != notContainer {
				r.flags |= flagBare
			}
			break
		}
	}
	if f.comm != nil {
		r.extra = f.comm.encode()
		r.b = 1
	}
	return l.rows.join.Add(r)
}

func (l *linker) pop(*sweep, *frame) error { return nil }

func (l *linker) point(*sweep, *row) error { return nil }

func (l *linker) endLane(*sweep, uint32) error {
	l.flush()
	return nil
}

// link runs the first sweep and the joins.
func link(ctx context.Context, p *process) error {
	l := &linker{process: p}
	s := &sweep{p: p, v: l}
	if err := s.run(ctx); err != nil {
		return err
	}
	l.ordinals, l.report.TooDeep = s.ord, s.deep
	slices.SortFunc(l.envelopes, func(a, b envelope) int { return cmp.Compare(a.start, b.start) })
	if err := l.pairUp(); err != nil {
		return err
	}
	return l.joinDevices(ctx)
}
