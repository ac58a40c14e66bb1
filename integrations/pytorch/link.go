package pytorch

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/kineto"
)

// engineGap is how long the autograd engine may pause inside one backward.
const engineGap = 1_000_000 // ns

// linker is the first sweep: it numbers the host rows, ties every launch to
// what launched it, sums the host's self time, and finds backward envelopes.
type linker struct {
	env    envelope
	open   bool
	counts [levelCount]int64
	out    row // being added to the join
}

func (l *linker) push(s *sweep, f *frame) error {
	p := s.p
	if f.level == 1 && f.r.kind != kineto.KindOverhead && f.r.kind != kineto.KindPython {
		p.totalSelf += f.r.end - f.r.start
	}
	if f.clamped > 0 {
		p.report.Clamped++
	}
	if lvl := hostLevel(p, f); lvl < levelCount {
		l.counts[lvl]++
	}
	p.noteCompile(f)
	if p.isHostCollective(s, f) {
		p.addCollective(f.comm, &f.r, f.step, true)
		if !slices.Contains(p.hostComm, f.r.lane) && len(p.hostComm) < 64 {
			p.hostComm = append(p.hostComm, f.r.lane)
		}
	}
	p.moduleFrames = p.moduleFrames || isModuleFrame(f)
	if f.engine && (len(s.stack) < 2 || !s.stack[len(s.stack)-2].engine) {
		l.engine(s, f)
	}
	if err := l.sequenced(p, f); err != nil {
		return err
	}
	if (f.r.kind == kineto.KindRuntime || f.r.kind == kineto.KindDriver) && f.r.corr != 0 {
		return l.launch(s, f)
	}
	return nil
}

// engine extends the current backward envelope of the lane, or starts one.
func (l *linker) engine(s *sweep, f *frame) {
	if l.open && f.step == l.env.step && f.r.start-l.env.end < engineGap {
		l.env.end = max(l.env.end, f.r.end)
		return
	}
	l.flush(s.p)
	l.env, l.open = envelope{start: f.r.start, end: f.r.end, lane: f.r.lane, step: f.step}, true
}

func (l *linker) flush(p *process) {
	if l.open && len(p.envelopes) < 1<<20 {
		p.envelopes = append(p.envelopes, l.env)
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
	return s.p.join.Add(r)
}

func (l *linker) pop(*sweep, *frame) error { return nil }

func (l *linker) point(*sweep, *row) error { return nil }

func (l *linker) endLane(s *sweep, _ uint32) error {
	l.flush(s.p)
	return nil
}

// link runs the first sweep and the join.
func (p *process) link(ctx context.Context) error {
	l := &linker{}
	s := &sweep{p: p, v: l}
	if err := s.run(ctx); err != nil {
		return err
	}
	p.ordinals, p.report.TooDeep = s.ord, s.deep
	p.levelCounts = l.counts
	slices.SortFunc(p.envelopes, func(a, b envelope) int { return cmp.Compare(a.start, b.start) })
	if err := p.pairUp(); err != nil {
		return err
	}
	return p.joinDevices(ctx)
}

// joinDevices gives every device row what its launch knows, by correlation.
// The External id of a row is not used: in the files of torch 1.13 to 2.2 it
// counts something else.
func (p *process) joinDevices(ctx context.Context) error {
	it := p.join.Iter()
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
		if err := p.resolve(r, &link, have && link.corr == r.corr && r.corr != 0); err != nil {
			return err
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	p.join.Close()
	p.sortCollectives()
	return nil
}

// resolve returns a device row what its launch knows.
func (p *process) resolve(dev, link *row, linked bool) error {
	counted := dev.works()
	lvl := levelKernel
	if linked {
		dev.flags |= flagLinked | link.flags&(flagBackward|flagBare)
		dev.step, dev.ord = link.step, link.ord
		dev.launch, dev.launchEnd = link.launch, link.launchEnd
		dev.op, dev.region, dev.graph = link.op, link.region, link.graph
		if dev.a < 0 && link.a >= 0 {
			dev.a = link.a
		}
		if dev.kind == kineto.KindMemcpy && dev.extra == "" && link.b == 0 {
			dev.extra = link.extra
		}
	} else if counted {
		p.report.DeviceUnlinked++
	}
	var comm int64
	if dev.kind == kineto.KindKernel {
		if c, ok := p.deviceCollective(dev, link, linked); ok {
			comm = dev.end - dev.start
			dev.extra = c.encode()
			lvl = levelAnnotation
			p.addCollective(&c, dev, dev.step, false)
		} else {
			dev.extra = ""
		}
	}
	if dev.kind == kineto.KindMemcpy && transferKind(p.names.of(dev), dev.extra) != "" {
		lvl = levelAnnotation
	}
	p.levelCounts[lvl]++
	if linked && counted {
		part := &p.part // a local one would be allocated for every row
		*part = share{of: dev.ord, time: dev.end - dev.start, comm: comm}
		if err := p.onHost.Add(part); err != nil {
			return err
		}
		if part.of = dev.launch; p.hasPhases() {
			if err := p.launches.Add(part); err != nil {
				return err
			}
		}
	}
	return p.device.Add(dev)
}

// deviceCollective reports whether a kernel is a collective and which: by its
// own arguments, else by the rows that enclose its launch, else by its name.
func (p *process) deviceCollective(dev, link *row, linked bool) (collective, bool) {
	name := p.names.of(dev)
	rule := p.deviceRules.match(dev, name)
	if dev.extra == "" && (rule == nil || rule.Class != ClassComm) {
		return collective{}, false
	}
	c := newCollective()
	if linked && link.b == 1 {
		c = decodeCollective(link.extra)
	}
	if dev.extra != "" {
		c.fromArgs(kineto.Args(dev.extra))
	}
	if c.op == "" && c.coll == "" || rule != nil && rule.Op != "" && !c.transfer {
		op, word := kernelOp(rule, name)
		if op != "" || c.coll == "" {
			c.op, c.coll = op, word
		}
	}
	return c, true
}

// transferKind returns HtoD, DtoH, DtoD, PtoP or HtoH for a copy, or "" when
// neither the name nor ROCm's kind argument tells.
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
