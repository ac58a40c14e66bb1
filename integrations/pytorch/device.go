package pytorch

import (
	"context"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/kineto"
	"github.com/trainspan/trainspan/internal/torchrules"
	"github.com/trainspan/trainspan/internal/vocab"
)

// deviceRows writes the rows of all device lanes, in order of time.
type deviceRows struct {
	*out
	spans  *spanWriter
	dynamo dynamoRows
	busy   busyDevices
	tid    int64       // of the row being written
	class  deviceClass // of the same
}

func (e *deviceRows) run(ctx context.Context) error {
	it := e.p.rows.device.Iter()
	for n := 0; ; n++ {
		if n&0xfff == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		r := it.Next()
		if r == nil {
			return it.Err()
		}
		name := e.p.names.of(r)
		lane := &e.p.lanes.device[r.lane]
		tid, part := lane.place(r.start, r.end)
		if part > 0 {
			e.p.report.DeviceOverlaps++
			e.nameLane(tid, lane.name(part))
		}
		e.tid, e.class = tid, e.p.deviceRules.classOf(r, name)
		e.busy.add(r, e.class, e.p.window)
		e.row(r, name)
		ai := ""
		switch r.kind {
		case kineto.KindMemcpy:
			ai = e.transfer(r, name)
		case kineto.KindKernel:
			if r.extra != "" {
				ai = e.comm(r)
			}
			if r.flags&flagBare != 0 && strings.HasPrefix(name, "triton_") {
				e.dynamo.bareKernel(r, e.tid, name)
			}
		}
		e.spans.device(e.p, r, name, ai)
	}
}

// row writes a row as the profiler has it.
func (e *deviceRows) row(r *row, name string) {
	if _, ok := vocab.ProfilerStepNumber(name); ok && e.p.opts.StarSteps {
		name = "ProfilerStep*"
	}
	e.onDevice("PP", name, e.tid, r)
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
		if e.class != classCompute {
			e.str("class", torchrules.Classes[e.class])
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
		if op := e.p.names.opOf(r); op != "" {
			e.str("op", op)
		}
		e.us("launch_delay_us", max(r.start-r.launch, 0))
	} else if r.works() {
		e.int("unlinked", 1)
	}
	e.exact(r.start, dur)
	e.common(r.step, false)
}

// transfer writes the device.transfer event of a copy, if it is one, and
// returns its category and name.
func (e *deviceRows) transfer(r *row, name string) string {
	kind := transferKind(name, r.extra)
	if kind == "" || kind == "HtoH" || kind == "DtoD" && !e.p.opts.DeviceCopies {
		return ""
	}
	e.onDevice("device", "transfer", e.tid, r)
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

// comm writes the comm event of a collective's kernel. The time is the
// device's and includes waiting for late peers, which wait_us tells when other
// ranks were imported along.
func (e *deviceRows) comm(r *row) string {
	c := decodeCollective(r.extra)
	name := c.op
	if name == "" {
		if c.transfer && (c.coll == "wait" || c.coll == "init") {
			return ""
		}
		name = "unknown"
	}
	e.onDevice("comm", name, e.tid, r)
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
