package pytorch

import (
	"context"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/kineto"
	"github.com/trainspan/trainspan/spans"
)

// deviceRows writes the rows of all device lanes, in order of time.
func (e *emitter) deviceRows(ctx context.Context) error {
	it := e.p.device.Iter()
	for n := 0; ; n++ {
		if n&0xfff == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		r := it.Next()
		if r == nil {
			return it.Err()
		}
		name := e.p.names.of(r)
		tid, part := e.p.devLanes[r.lane].place(r.start, r.end)
		if part > 0 {
			e.p.report.DeviceOverlaps++
			e.nameLane(tid, e.p.devLanes[r.lane].name(part))
		}
		e.devTID = tid
		e.class = e.p.classOf(r)
		e.busy(r)
		e.deviceEvent(r, name)
		ai := ""
		switch r.kind {
		case kineto.KindMemcpy:
			ai = e.transfer(r, name)
		case kineto.KindKernel:
			if r.extra != "" {
				ai = e.deviceComm(r)
			}
			if r.flags&flagBare != 0 && strings.HasPrefix(name, "triton_") {
				e.bareKernel(r, name)
			}
		}
		e.spans.device(e.p, r, name, ai)
	}
}

func (e *emitter) onDevice(cat, name string, r *row) {
	e.begin(cat, name, e.devTID, r.start, r.end)
	if r.kind == kineto.KindKernel || r.kind == kineto.KindMemcpy || r.kind == kineto.KindMemset || r.kind == kineto.KindDevice {
		e.ev.Type = dftracer.TypeCUDA
	}
}

func (e *emitter) deviceEvent(r *row, name string) {
	if _, ok := spans.ProfilerStepNumber(name); ok && e.opts.StarSteps {
		name = "ProfilerStep*"
	}
	e.onDevice("PP", name, r)
	dur := r.end - r.start
	e.int("device", e.p.deviceType)
	e.known("device_id", r.b)
	e.known("stream", r.c)
	work := dur
	if !r.works() {
		work = 0
	}
	e.args = append(e.args,
		dftracer.Int("cpu_memory", 0),
		dftracer.Int("device_memory_usage", 0),
		dftracer.Int("is_remote", 0),
		dftracer.Int("input_size", 0),
		dftracer.Float("total_cpu_percent", 0),
		dftracer.Float("total_device_percent", percent(work, e.p.totalDevice)))
	if r.works() {
		e.us("device_us", dur)
		if e.class != ClassCompute {
			e.str("class", e.class.String())
		}
	}
	e.str("kind", r.kind.String())
	if r.kind == kineto.KindDevice || r.kind == kineto.KindDeviceRange {
		e.text("category", r.extra)
	}
	if r.kind == kineto.KindKernel && r.extra != "" {
		e.int("collective", 1)
	}
	if r.corr != 0 {
		e.int("correlation", r.corr)
	}
	e.known("bytes", r.a)
	if r.flags&flagLinked != 0 {
		if op := e.p.opOf(r); op != "" {
			e.str("op", op)
		}
		e.us("launch_delay_us", max(r.start-r.launch, 0))
	} else if r.works() {
		e.int("unlinked", 1)
	}
	e.exact(r.start, dur)
	e.common(r.step, false)
}

// opOf returns the name of the operator or annotation that launched a row.
func (p *process) opOf(r *row) string {
	if r.op == 0 || int(r.op) >= len(p.names.text) {
		return ""
	}
	return ref(p.names.text[r.op])
}

// transfer writes the device.transfer event of a copy, if it is one, and
// returns its category and name.
func (e *emitter) transfer(r *row, name string) string {
	kind := transferKind(name, r.extra)
	if kind == "" || kind == "HtoH" || kind == "DtoD" && !e.opts.DeviceCopies {
		return ""
	}
	e.onDevice("device", "transfer", r)
	e.str("kind", kind)
	e.known("bytes", r.a)
	e.known("device", r.b)
	e.known("stream", r.c)
	src, dst := "device", "device"
	if kind[0] == 'H' {
		src = "host"
	}
	if kind[len(kind)-1] == 'H' {
		dst = "host"
	}
	e.str("src", src)
	e.str("dst", dst)
	switch {
	case strings.Contains(name, "Pinned"):
		e.str("pinned", "yes")
	case strings.Contains(name, "Pageable"):
		e.str("pinned", "no")
	default:
		e.str("pinned", "unknown")
	}
	if dur := r.end - r.start; dur > 0 && r.a > 0 {
		e.args = append(e.args, dftracer.Float("bw_GBs", float64(r.a)/float64(dur)))
	}
	e.common(r.step, true)
	return "device.transfer"
}

// deviceComm writes the comm event of a collective's kernel. The time is the
// device's and includes waiting for late peers, which wait_us tells when other
// ranks were imported along.
func (e *emitter) deviceComm(r *row) string {
	c := decodeCollective(r.extra)
	name := c.op
	if name == "" {
		if c.transfer && (c.coll == "wait" || c.coll == "init") {
			return ""
		}
		name = "unknown"
	}
	e.onDevice("comm", name, r)
	e.commArgs(&c)
	e.known("device", r.b)
	e.known("stream", r.c)
	if r.flags&flagLinked != 0 {
		e.us("host_launch_us", r.launchEnd-r.launch)
	}
	e.waited(&c, r.seq)
	e.common(r.step, true)
	return "comm." + name
}

// waited adds what the other ranks tell about a collective.
func (e *emitter) waited(c *collective, row int64) {
	w, ok := e.p.waits[row]
	if !ok {
		return
	}
	e.us("wait_us", max(w.wait, 0))
	e.known("last_rank", w.lastRank)
	if c.groupSize > int64(w.ranks) {
		e.int("ranks_compared", int64(w.ranks))
	}
}

func (e *emitter) commArgs(c *collective) {
	e.text("coll", c.coll)
	e.text("pg", c.pg)
	e.text("pg_desc", c.pgDesc)
	e.known("group_size", c.groupSize)
	e.text("dtype", c.dtype)
	e.known("in_bytes", c.inBytes)
	e.known("out_bytes", c.outBytes)
	if c.inBytes < 0 {
		e.known("in_elements", c.inElems)
	}
	e.known("seq", c.seq)
	e.known("src", c.src)
	e.known("dst", c.dst)
}

// hostCollective writes the comm event of a collective that the host runs itself.
func (e *emitter) hostCollective(s *sweep, f *frame) {
	if !e.p.isHostCollective(s, f) {
		return
	}
	e.nested("comm", f.comm.op, f)
	e.commArgs(f.comm)
	e.str("clock", "host")
	e.waited(f.comm, f.r.seq)
	e.common(f.step, true)
}

// isHostCollective reports whether a host row stands for a collective: the row
// of a backend that works on the host, else, in a trace without any such row and
// without collectives on a device, the dispatcher's.
func (p *process) isHostCollective(s *sweep, f *frame) bool {
	if f.comm == nil || f.comm.op == "" || f.r.kind != kineto.KindCPUOp && f.r.kind != kineto.KindUserAnnotation {
		return false
	}
	var up *frame
	if len(s.stack) > 1 && s.stack[len(s.stack)-2].comm != nil {
		up = &s.stack[len(s.stack)-2]
	}
	if p.hasGloo {
		return f.isBackendRow() && (up == nil || !up.isBackendRow())
	}
	return !p.hasComm && up == nil // else the enclosing row stands for it
}

func (f *frame) isBackendRow() bool { return hostBackendRow(f.name) }

// hostBackendRow reports whether a row is that of a backend that runs
// collectives on the host.
func hostBackendRow(name string) bool {
	word, ok := commAnnotation(name)
	return ok && commOp(word) != "" && (strings.HasPrefix(name, "gloo:") || strings.HasPrefix(name, "mpi:") || strings.HasPrefix(name, "ucc:"))
}
