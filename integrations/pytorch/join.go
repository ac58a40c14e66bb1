package pytorch

import (
	"context"
	"strings"

	"github.com/trainspan/trainspan/internal/kineto"
)

// joinDevices tells every device row what its launch knows, by correlation.
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
	_ = l.rows.join.Close() // what it held was read
	l.comms.sort()
	return nil
}

// resolve tells a device row what its launch knows.
func (l *linker) resolve(dev, link *row, linked bool) error {
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
	if dev.kind == kineto.KindMemcpy && transferKind(l.names.of(dev), dev.extra) != "" {
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

// deviceCollective reports whether a kernel is a collective and which: by its
// own arguments, else by the rows that enclose its launch, else by its name.
func (l *linker) deviceCollective(dev, link *row, linked bool) (collective, bool) {
	name := l.names.of(dev)
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
