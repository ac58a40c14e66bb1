package torch

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// emitter is the last pass: it converts the rows of one process to events. Host
// rows are visited in nesting order, device rows in order of time.
type emitter struct {
	*out
	spans    *spanWriter
	frames   *frameJoin
	profiler profilerRows
	ai       aiRows
	inferred *inference
	dynamo   dynamoRows
}

// emit writes the events of a process and completes its report.
func emit(ctx context.Context, o *out, spans *spanWriter, jobs map[jobKey]*job) error {
	p := o.p
	e := &emitter{out: o, spans: spans, profiler: profilerRows{o}, ai: aiRows{o}, inferred: newInference(o, spans), dynamo: dynamoRows{o}}
	if c := p.report.Compile; c != nil {
		c.settle()
	}
	e.framing()
	e.root(jobs)
	e.frames = newFrameJoin(p, o.nextID)
	if err := (&sweep{p: p, v: e}).run(ctx); err != nil {
		return err
	}
	if err := e.frames.err(); err != nil {
		return err
	}
	e.inferred.backwards()
	device := &deviceRows{out: o, spans: spans, dynamo: e.dynamo}
	if err := device.run(ctx); err != nil {
		return err
	}
	if err := cmp.Or(e.frames.launches.err(), e.inferred.err()); err != nil {
		return err
	}
	p.report.Devices = device.busy.use(p.window)
	e.totals()
	o.counts["PP"] += o.profiler
	p.finishReport(max(e.frames.launches.runs, e.inferred.ofForward.runs) - maxSums)
	return nil
}

func (e *emitter) push(s *sweep, f *frame) error {
	e.frames.push(f)
	if f.id == 0 {
		f.id = e.nextID()
	}
	e.inferred.forwards(f)
	e.spans.open(f)
	return nil
}

func (e *emitter) pop(s *sweep, f *frame) error {
	up := s.outerFrame()
	e.frames.pop(f)
	e.profiler.pop(f, up)
	e.ai.pop(s, f)
	e.inferred.moduleForward(s, f)
	e.ai.hostCollective(f, up)
	e.dynamo.pop(s, f, up)
	e.spans.close(e.p, s, f)
	return nil
}

func (e *emitter) point(s *sweep, r *row) error {
	e.profiler.point(s.top(), r)
	return nil
}

func (e *emitter) endLane(*sweep, uint32) error {
	e.inferred.endLane()
	return nil
}

// framing writes the names of the host, the rank and the device lanes of the
// process.
func (e *emitter) framing() {
	p := e.p
	hash := tracefile.HashOf(p.opts.Dialect, p.host)
	e.hostHash = tracefile.HashText(hash, p.opts.Dialect)
	e.meta(tracefile.NameHostHash, 0, dftracer.String("name", p.host), tracefile.HashArg("value", hash))
	if p.rank >= 0 {
		rank := strconv.FormatInt(p.rank, 10)
		e.meta(tracefile.NameProcess, 0, dftracer.String("name", "rank"), dftracer.String("value", rank))
		e.meta(tracefile.NameProcessName, 0, dftracer.String("name", "Rank "+rank), dftracer.String("value", tracefile.NameProcessName))
	}
	p.lanes.names(p.pid, p.prefix(), p.steps, p.envelopes, e.nameLane)
}

// totals writes the totals with which a reader can turn the percentages back
// into times.
func (e *emitter) totals() {
	p := e.p
	cm := func(key, value string) {
		e.meta(tracefile.NameCustom, 0, dftracer.String("name", "pytorch."+key), dftracer.String("value", value))
	}
	for _, group := range slices.Sorted(maps.Keys(p.comms.groupRanks)) {
		if ranks := p.comms.groupRanks[group].text; strings.HasPrefix(ranks, "[") {
			e.meta(tracefile.NameCustom, 0, dftracer.String("name", tracefile.KeyGroup+group), dftracer.String("value", ref(ranks)))
		}
	}
	cm("trace", p.name)
	cm("total_self_cpu_us", strconv.FormatFloat(float64(p.totalSelf)/1000, 'f', -1, 64))
	cm("total_device_us", strconv.FormatFloat(float64(p.totalDevice)/1000, 'f', -1, 64))
	cm("time_base", p.report.BaseSource)
	if p.world >= 0 {
		cm("world_size", strconv.FormatInt(p.world, 10))
	}
	if p.report.Backend != "" {
		cm("backend", p.report.Backend)
	}
	if d := p.report.ClockOffset; d != 0 {
		cm("clock_offset_us", strconv.FormatFloat(float64(d)/1000, 'f', -1, 64))
	}
	if d := p.report.ClockDrift; d != 0 {
		cm("clock_drift_ppm", strconv.FormatFloat(d, 'f', 3, 64))
	}
}
