package pytorch

import (
	"cmp"
	"context"
	"math"
	"strconv"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/kineto"
	"github.com/trainspan/trainspan/internal/spill"
	"github.com/trainspan/trainspan/spans"
)

// emitter turns the rows of one process into events.
type emitter struct {
	p      *process
	opts   *Options
	sink   Sink
	nextID func() uint64
	spans  *spanWriter
	counts map[string]int64
	jobs   map[jobKey]*job
	// tids that have a name.
	laneNamed map[int64]bool
	// Events of category PP, which are most.
	profiler   int64
	ids        idRuns
	devTID     int64       // of the device row being written
	class      DeviceClass // of the same
	devices    map[int64]*busyDevice
	lastBusy   *busyDevice
	lastDevice int64

	hasEpoch bool // the event being written has its own
	// Device time launched before the ends of frames, of inferred stretches of
	// forward, and of backward: each is asked in order of time.
	ofFrames, ofForward, ofStarts, ofEnds launchSum

	onHost  *spill.Iter[share]
	pending *share
	ties    *spill.Iter[row]
	nextTie *row

	hostHash string
	ev       dftracer.Event
	args     []dftracer.Arg

	// Inference of forward on the lane being swept.
	fwd                envelope
	fwdOpen            bool
	nextEnv            int
	inferFwd, inferBwd bool
	moduleFwd          bool
}

func (e *emitter) run(ctx context.Context) error {
	p := e.p
	infer := !e.opts.NoInference && !p.rules.seen["compute/forward"]
	e.inferFwd, e.moduleFwd = infer && !p.moduleFrames, infer && p.moduleFrames
	e.inferBwd = !e.opts.NoInference && !p.rules.seen["compute/backward"]
	if c := p.report.Compile; c != nil {
		c.settle()
	}
	for _, l := range []*launchSum{&e.ofFrames, &e.ofForward, &e.ofStarts, &e.ofEnds} {
		l.p = p
	}
	e.framing()
	e.root()
	for range p.tied {
		e.ids.add(e.nextID())
	}
	it := p.onHost.Iter()
	e.onHost = it
	e.pending = it.Next()
	ties := p.ties.Iter()
	e.ties = ties
	e.nextTie = ties.Next()
	if err := (&sweep{p: p, v: e}).run(ctx); err != nil {
		return err
	}
	if err := cmp.Or(it.Err(), ties.Err()); err != nil {
		return err
	}
	if e.inferBwd {
		e.backwards()
	}
	if err := e.deviceRows(ctx); err != nil {
		return err
	}
	if err := cmp.Or(e.ofFrames.err(), e.ofForward.err(), e.ofStarts.err(), e.ofEnds.err()); err != nil {
		return err
	}
	p.lanesLeft = max(e.ofFrames.runs, e.ofForward.runs) - maxSums
	p.report.Devices = e.use()
	e.totals()
	e.counts["PP"] += e.profiler
	if c := p.report.Compile; c != nil {
		c.say(p.report)
	}
	return nil
}

// micros turns a time of the file into microseconds since 1970.
func (e *emitter) micros(t int64) int64 {
	return max(floorMicros(e.p.wall(t)), 0)
}

func floorMicros(t int64) int64 {
	m := t / 1000
	if t%1000 < 0 {
		m--
	}
	return m
}

// begin starts an event that spans [start, end] in file time.
func (e *emitter) begin(cat, name string, tid, start, end int64) {
	ts := e.micros(start)
	e.beginAt(cat, name, tid, ts, max(e.micros(end)-ts, 0))
}

// beginAt starts an event at ts, in microseconds since 1970.
func (e *emitter) beginAt(cat, name string, tid, ts, dur int64) {
	e.ev = dftracer.Event{
		Phase: dftracer.PhaseComplete, Type: dftracer.TypePython, Name: name, Cat: cat, PID: e.p.pid, TID: tid, TS: ts, Dur: dur,
		HostHash: e.hostHash, Parent: dftracer.NoParent,
	}
	e.args = e.args[:0]
}

func (e *emitter) int(key string, v int64) { e.args = append(e.args, dftracer.Int(key, v)) }

func (e *emitter) str(key, v string) { e.args = append(e.args, dftracer.String(key, v)) }

// known adds a number that is -1 when nobody knows it.
func (e *emitter) known(key string, v int64) {
	if v >= 0 {
		e.int(key, v)
	}
}

func (e *emitter) text(key, v string) {
	if v != "" {
		e.str(key, v)
	}
}

// percent returns what part is of whole, to four decimals.
func percent(part, whole int64) float64 {
	if whole <= 0 || part == 0 {
		return 0
	}
	return math.Round(float64(part)/float64(whole)*1e6) / 1e4
}

// us adds nanoseconds as microseconds, with decimals when the file has them.
func (e *emitter) us(key string, ns int64) {
	if ns%1000 == 0 {
		e.int(key, ns/1000)
		return
	}
	e.args = append(e.args, dftracer.Float(key, float64(ns)/1000))
}

// common adds what every event carries and hands it to the sink.
func (e *emitter) common(step int32, source bool) {
	if e.p.rank >= 0 {
		e.int("rank", e.p.rank)
	}
	if (e.opts.Epoch > 0 || e.opts.HasEpoch) && !e.hasEpoch {
		e.int("epoch", e.opts.Epoch)
	}
	if n, ok := e.p.stepNumber(step); ok {
		e.int("step", n)
	}
	if source {
		e.str("source", "kineto")
	}
	e.write()
}

func (e *emitter) write() {
	e.ev.Args, e.hasEpoch = e.args, false
	if e.ev.ID == 0 && e.ev.Phase == dftracer.PhaseComplete {
		e.ev.ID = e.nextID()
	}
	if e.ev.Cat == "PP" {
		e.profiler++
	} else {
		e.counts[e.ev.Cat]++
	}
	e.sink.Write(&e.ev)
}

// exact adds the digits below a microsecond that ts and dur cannot hold.
func (e *emitter) exact(start, dur int64) {
	if e.p.nanos {
		e.int("ts_ns", e.p.wall(start))
		e.int("dur_ns", dur)
	}
}

func (e *emitter) push(s *sweep, f *frame) error {
	if e.tieUp(f); f.id == 0 {
		f.id = e.nextID()
	}
	for e.pending != nil && e.pending.of <= f.ord {
		if e.pending.of == f.ord {
			f.devSelf += e.pending.time
		}
		e.pending = e.onHost.Next()
	}
	f.devTotal = f.devSelf
	if f.phase = f.isPhase(); f.phase {
		f.launched = e.ofFrames.until(f.r.start)
	}
	e.forwards(s, f)
	e.spans.open(e.p, s, f)
	return nil
}

func (e *emitter) pop(s *sweep, f *frame) error {
	var up *frame
	if len(s.stack) > 1 {
		up = &s.stack[len(s.stack)-2]
	}
	if f.phase {
		f.launched = e.ofFrames.until(f.r.end).since(f.launched)
		f.devTotal = max(f.devTotal, f.launched.time)
	}
	e.profilerEvent(f, up)
	isStep := false
	if n, ok := spans.ProfilerStepNumber(f.name); ok && f.r.kind == kineto.KindUserAnnotation {
		isStep = true
		if !e.opts.NoSteps {
			e.nested("pipeline", e.p.stepName(), f)
			e.int("step", n)
			e.deviceTime(f.launched)
			e.common(-1, true)
		}
	}
	if f.rule > 0 && !isStep {
		e.ruleEvent(s, f)
	}
	e.moduleForward(s, f)
	e.hostCollective(s, f)
	e.dynamoEvent(s, f, up)
	e.spans.close(e.p, s, f)
	return nil
}

// nested starts an event with the time and place of a host row.
func (e *emitter) nested(cat, name string, f *frame) {
	e.begin(cat, name, e.p.lanes[f.r.lane].tid, f.r.start, f.r.end)
	e.ev.Level = f.level + 1
	e.ev.Parent = int64(f.id)
}

func (e *emitter) profilerEvent(f, up *frame) {
	name := f.name
	if _, ok := spans.ProfilerStepNumber(name); ok && e.opts.StarSteps {
		name = "ProfilerStep*"
	}
	cat := "PP"
	if e.p.report.Foreign {
		cat = "trace_event"
	}
	e.begin(cat, name, e.p.lanes[f.r.lane].tid, f.r.start, f.r.end)
	e.ev.ID, e.ev.Level = f.id, f.level
	if up != nil {
		e.ev.Parent = int64(up.id)
	}
	dur := f.r.end - f.r.start
	self := max(dur-f.childDur, 0)
	op := f.r.kind == kineto.KindCPUOp || f.r.kind == kineto.KindUserAnnotation
	size := int64(0)
	if op {
		size = f.r.a
	}
	e.args = append(e.args,
		dftracer.Int("device", 0),
		dftracer.Int("cpu_memory", f.hostMem),
		dftracer.Int("device_memory_usage", f.devMem),
		dftracer.Int("is_remote", 0),
		dftracer.Int("input_size", size),
		dftracer.Float("total_cpu_percent", percent(dur, e.p.totalSelf)),
		dftracer.Float("total_device_percent", percent(f.devTotal, e.p.totalDevice)),
		dftracer.Float("self_cpu_percent", percent(self, e.p.totalSelf)))
	if f.hostMemSelf != 0 {
		e.int("self_cpu_memory", f.hostMemSelf)
	}
	if f.devMemSelf != 0 {
		e.int("self_device_memory_usage", f.devMemSelf)
	}
	if op && f.r.b > 0 {
		e.int("input_bytes", f.r.b)
	}
	if f.devTotal > 0 {
		e.us("device_us", f.devTotal)
	}
	if f.r.corr != 0 {
		e.int("correlation", f.r.corr)
	}
	if !op {
		e.str("kind", f.r.kind.String())
		if f.r.kind == kineto.KindRuntime || f.r.kind == kineto.KindDriver {
			e.known("bytes", f.r.a)
		}
	}
	if f.clamped > 0 {
		e.us("clamped_us", f.clamped)
	}
	e.tied(f)
	e.recomputed(f)
	e.exact(f.r.start, dur+f.clamped)
	e.common(f.step, false)
}

// ruleEvent writes the event of the AI category that a row's name stands for.
func (e *emitter) ruleEvent(s *sweep, f *frame) {
	rule := &e.p.rules.rules[f.rule-1]
	if f.inBackward(rule) {
		return
	}
	if rule.Outermost {
		for i := range s.stack[:len(s.stack)-1] {
			if r := s.stack[i].rule; r > 0 && e.p.rules.rules[r-1].Cat == rule.Cat && e.p.rules.rules[r-1].Name == rule.Name {
				return
			}
		}
	}
	e.nested(rule.Cat, rule.Name, f)
	e.ruleArg(f, rule)
	e.deviceTime(f.launched)
	e.str("annotation", f.name)
	e.common(f.step, true)
}

// deviceTime writes the device time of a phase, and how much of it collectives
// took: without them it is what the device worked for this rank.
func (e *emitter) deviceTime(l launched) {
	if l.time > 0 {
		e.us("device_us", l.time)
	}
	if l.comm > 0 {
		e.us("device_comm_us", l.comm)
	}
}

// ruleArg adds the argument that a rule finds in the name. An epoch is a number,
// and stands instead of that of the options.
func (e *emitter) ruleArg(f *frame, rule *Rule) {
	if rule.Arg == "" {
		return
	}
	text := e.p.rules.group(f.rule-1, f.name)
	if rule.Arg != "epoch" {
		e.text(rule.Arg, text)
	} else if n, ok := kineto.ParseInt([]byte(text)); ok {
		e.int("epoch", n)
		e.hasEpoch = true
	}
}

// point attributes an allocator event to the innermost row around it, or
// writes it as an event of its own when there is none: frees by Python's
// reference counting belong to no operator, and a step is none.
func (e *emitter) point(s *sweep, r *row) error {
	top := s.top()
	if top != nil {
		if _, step := spans.ProfilerStepNumber(top.name); step {
			top = nil
		}
	}
	host, device := r.b == 0, r.b == 1 || r.b == 6 || r.b == 12 || r.b == 15 || r.b == 19 || r.b == 20
	if top != nil && host {
		top.hostMemSelf += r.a
		top.hostMem += r.a
		return nil
	}
	if top != nil && device {
		top.devMemSelf += r.a
		top.devMem += r.a
		return nil
	}
	e.p.report.MemoryUnattributed++
	e.begin("PP", e.p.names.of(r), e.p.lanes[r.lane].tid, r.start, r.start)
	e.int("device", r.b)
	e.known("device_id", r.c)
	if host {
		e.int("cpu_memory", r.a)
		e.int("device_memory_usage", 0)
	} else {
		e.int("cpu_memory", 0)
		e.int("device_memory_usage", r.a)
	}
	e.int("is_remote", 0)
	e.int("input_size", 0)
	e.args = append(e.args, dftracer.Float("total_cpu_percent", 0), dftracer.Float("total_device_percent", 0))
	e.int("unattributed", 1)
	if r.launch > 0 {
		e.int("total_allocated", r.launch)
		e.int("total_reserved", r.launchEnd)
	}
	e.exact(r.start, 0)
	e.common(s.p.stepAt(r.start), false)
	return nil
}

// framing names the host, the rank and the device lanes of the process.
func (e *emitter) framing() {
	p := e.p
	hash := e.opts.Dialect.Hash(p.host)
	e.hostHash = hash.Text(e.opts.Dialect)
	e.meta(dftracer.NameHostHash, 0, dftracer.String("name", p.host), dftracer.HashArg("value", hash))
	if p.rank >= 0 {
		rank := strconv.FormatInt(p.rank, 10)
		e.meta(dftracer.NameProcess, 0, dftracer.String("name", "rank"), dftracer.String("value", rank))
		e.meta(dftracer.NameProcessName, 0, dftracer.String("name", "Rank "+rank), dftracer.String("value", dftracer.NameProcessName))
	}
	e.nameLanes()
}

func (e *emitter) meta(name string, tid int64, args ...dftracer.Arg) {
	e.ev = dftracer.Event{Phase: dftracer.PhaseMetadata, Name: name, Cat: dftracer.CatDFTracer, PID: e.p.pid, TID: tid, HostHash: e.hostHash}
	e.args = append(e.args[:0], args...)
	e.write()
}

// totals writes what a reader needs to turn the percentages back into times.
func (e *emitter) totals() {
	p := e.p
	cm := func(key, value string) {
		e.meta(dftracer.NameCustom, 0, dftracer.String("name", "pytorch."+key), dftracer.String("value", value))
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
