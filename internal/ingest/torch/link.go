package torch

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
	"github.com/trainspan/trainspan/internal/platform/extsort"
)

// engineGap is how long the autograd engine may pause inside one backward.
const engineGap = 1_000_000 // ns

// linker is the first sweep: it numbers the host rows, connects every launch to
// the row that launched it, sums the host's self time, and finds backward
// envelopes.
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
	up := s.outerFrame()
	if f.isHostCollective(up, l.process) {
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

// launch stores what a device row can learn from its launch in the join.
func (l *linker) launch(s *sweep, f *frame) error {
	r := &l.out
	*r = row{
		flags: flagLink, seq: f.r.seq, start: f.r.start, end: f.r.end, corr: f.r.corr, ord: f.ord, step: f.step,
		region: f.region, graph: f.graph, a: f.r.a, extra: f.r.extra,
	}
	if f.backward {
		r.flags |= flagBackward
	}
	for i := len(s.stack) - 2; i >= 0; i-- {
		up := &s.stack[i]
		if up.r.kind == kineto.KindCPUOp || up.r.kind == kineto.KindUserAnnotation {
			r.op = up.r.name
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

// joinDevices adds to every device row the data of its launch, by correlation.
// The External id of a row is not used: in the files of torch 1.13 to 2.2 it
// counts something else.
func (l *linker) joinDevices(ctx context.Context) error {
	it := l.rows.join.Iter()
	var link row
	have := false
	for n := 0; ; n++ {
		if n&0xfff == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		r := it.Next()
		if r == nil {
			break
		}
		if r.flags&flagLink != 0 {
			if !have || link.corr != r.corr {
				link, have = *r, true
			}
			continue
		}
		if err := l.resolve(r, &link, have && link.corr == r.corr && r.corr != 0); err != nil {
			return err
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	_ = l.rows.join.Close() // it was read completely
	l.comms.sort()
	return nil
}

// resolve adds to a device row the data of its launch.
func (l *linker) resolve(dev, link *row, linked bool) error {
	counted := dev.works()
	lvl := levelKernel
	if linked {
		dev.flags |= flagLinked | link.flags&(flagBackward|flagBare)
		dev.step, dev.ord = link.step, link.ord
		dev.launch, dev.launchEnd = link.start, link.end
		dev.op, dev.region, dev.graph = link.op, link.region, link.graph
		if dev.a < 0 && link.a >= 0 {
			dev.a = link.a
		}
		if dev.kind == kineto.KindMemcpy && dev.extra == "" && link.b == 0 {
			dev.extra = link.extra
		}
	} else if counted {
		l.report.DeviceUnlinked++
	}
	var comm int64
	if dev.kind == kineto.KindKernel {
		if c, ok := l.deviceCollective(dev, link, linked); ok {
			comm = dev.end - dev.start
			dev.extra = c.encode()
			lvl = levelAnnotation
			l.comms.add(&c, dev, &l.timeline, dev.step, false)
		} else {
			dev.extra = ""
		}
	}
	if dev.kind == kineto.KindMemcpy && transferKind(l.names.nameOf(dev), dev.extra) != "" {
		lvl = levelAnnotation
	}
	l.levels[lvl]++
	if linked && counted {
		part := &l.part // a local one would be allocated for every row
		*part = share{of: dev.ord, time: dev.end - dev.start, comm: comm}
		if err := l.rows.onHost.Add(part); err != nil {
			return err
		}
		if part.of = dev.launch; l.hasPhases() {
			if err := l.rows.launches.Add(part); err != nil {
				return err
			}
		}
	}
	return l.rows.device.Add(dev)
}

// deviceCollective reports whether a kernel is a collective and which one: by
// its own arguments, or by the rows that enclose its launch, or by its name.
func (l *linker) deviceCollective(dev, link *row, linked bool) (collective, bool) {
	name := l.names.nameOf(dev)
	rule := l.deviceRules.match(dev, name)
	if dev.extra == "" && (rule == nil || rule.class != classComm) {
		return collective{}, false
	}
	c := newCollective()
	if linked && link.b == 1 {
		c = decodeCollective(link.extra)
	}
	if dev.extra != "" {
		c.fromArgs(kineto.Args(dev.extra))
	}
	if c.op == "" && c.coll == "" || rule != nil && rule.op != "" && !c.transfer {
		op, word := rule.kernelOp(name)
		if op != "" || c.coll == "" {
			c.op, c.coll = op, word
		}
	}
	return c, true
}

// transferKind returns HtoD, DtoH, DtoD, PtoP or HtoH for a copy, or "" if
// neither the name nor ROCm's kind argument shows it.
func transferKind(name, kind string) string {
	for _, text := range [...]string{name, kind} {
		for _, k := range [...]string{"HtoD", "DtoH", "PtoP", "DtoD", "HtoH"} {
			if strings.Contains(text, k) {
				return k
			}
		}
		switch {
		case strings.Contains(text, "HostToDevice"):
			return "HtoD"
		case strings.Contains(text, "DeviceToHost"):
			return "DtoH"
		case strings.Contains(text, "DeviceToDevice"):
			return "DtoD"
		}
	}
	return ""
}

// Autograd numbers the operators of a thread when it records them, and the
// operators of the backward pass have the number of their forward operator and
// of its thread. Operators inside an operator have the same number; the one
// that started last made the backward node. The profiler draws its fwdbwd
// arrows by that rule, which is valid in every version; only few files have the
// arrows.

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
// number here, which becomes an id later, because the backward operator may be
// written first.
func (l *linker) pairUp() error {
	if len(l.fwdThreads) > 1 {
		l.report.cannot("which forward operator a backward operator belongs to: several threads ran forward with the same sequence numbers")
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
			// The same number on two threads does not identify an operator.
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
	_ = l.rows.pairs.Close() // it was read completely
	return it.Err()
}

// A phase owns the device work that any thread of its process launched inside
// it: the backward pass runs on autograd's own threads.

// share is device time and its owner: the time of its launch, or the number of
// the row that launched it. comm is the part of collectives.
type share struct{ of, time, comm int64 }

// launched is the device time that was launched in an interval, and the part of
// collectives, including their waits for other ranks.
type launched struct{ time, comm int64 }

func (l launched) minus(o launched) launched { return launched{l.time - o.time, l.comm - o.comm} }

func shareCodec() extsort.Codec[share] {
	return extsort.Plain(func(s *share) extsort.Key { return extsort.Key{First: s.of} })
}

// launchSum adds up device time by launch. For non-decreasing times it reads
// the launches once.
type launchSum struct {
	from *extsort.Sorter[share]
	it   *extsort.Iter[share]
	next *share
	at   int64 // of the last call
	sum  launched
	runs int // how often the launches were read
}

// maxSums is on how many lanes phases get device time: for each the launches
// are read again.
const maxSums = 64

// launchedBefore returns the device time, in nanoseconds, launched before t.
func (l *launchSum) launchedBefore(t int64) launched {
	if l.from.Len() == 0 {
		return launched{}
	}
	if l.it == nil || t < l.at {
		if l.runs++; l.runs > maxSums {
			l.at, l.next, l.sum = t, nil, launched{}
			return launched{}
		}
		l.it, l.sum = l.from.Iter(), launched{}
		l.next = l.it.Next()
	}
	l.at = t
	for l.next != nil && l.next.of < t {
		l.sum.time += l.next.time
		l.sum.comm += l.next.comm
		l.next = l.it.Next()
	}
	return l.sum
}

func (l *launchSum) err() error {
	if l.it == nil {
		return nil
	}
	return l.it.Err()
}
