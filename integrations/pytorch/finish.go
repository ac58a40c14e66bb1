package pytorch

import (
	"fmt"
	"time"
)

// finishReport fills in what the passes found. lanesLeft is on how many threads
// phases have no device time.
func (p *process) finishReport(lanesLeft int) {
	r := p.report
	if r.Compile != nil {
		r.Compile.say(r)
	}
	r.PID, r.Host = p.pid, p.host
	r.Start, r.End = time.Unix(0, p.wall(p.window[0])), time.Unix(0, p.wall(p.window[1]))
	r.SelfCPU, r.Device = time.Duration(p.totalSelf), time.Duration(p.totalDevice)
	r.SpilledBytes = p.rows.spilled()
	if r.Steps == 0 {
		r.cannot("steps: the profiler marks them only when it runs with a schedule")
	}
	if p.ordinals == 0 {
		r.cannot("operators: the trace has no host rows")
	}
	if !p.hasShapes && p.ordinals > 0 {
		r.cannot("input_size: record_shapes was off")
	}
	if r.MemoryInstants == 0 {
		r.cannot("memory: profile_memory was off")
	}
	if p.rank < 0 {
		r.cannot("the rank: neither the file nor its name tells")
	}
	if r.DeviceUnlinked > 0 {
		r.cannot(fmt.Sprintf("what launched %d device rows: the launch is a graph replay or before the window", r.DeviceUnlinked))
	}
	if r.HalfEvents > 0 {
		r.warn(fmt.Sprintf("%d events have a begin or an end only and were left out", r.HalfEvents))
	}
	if r.Negative > 0 {
		r.warn(fmt.Sprintf("%d events end before they begin and were left out", r.Negative))
	}
	if r.TooDeep > 0 {
		r.warn(fmt.Sprintf("%d rows nest deeper than %d levels and stand beside the row around them", r.TooDeep, maxDepth))
	}
	if p.stepsLeft > 0 {
		r.warn(fmt.Sprintf("%d steps beyond the first %d were taken for annotations", p.stepsLeft, maxSteps))
	}
	if lanesLeft > 0 {
		r.warn(fmt.Sprintf("phases on %d threads have no device time: more than %d threads have phases", lanesLeft, maxSums))
	}
	if r.Clamped > 0 {
		r.warn(fmt.Sprintf("%d rows outlived the row around them and were cut to it", r.Clamped))
	}
}
