package torch

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// SpanOptions ask for OpenTelemetry spans from an import.
//
// Every step of every rank is a separate trace with the step as its root; what
// is outside all steps is one more trace per file. Ids are derived from the
// file's contents, so that a second import makes the same spans.
type SpanOptions struct {
	// Exporter gets the finished spans in batches. The import does not shut it
	// down.
	Exporter sdktrace.SpanExporter
	// Level is the deepest level, LevelAnnotation if empty.
	Level Level
	// Budget is the maximum number of spans, 10,000 if zero, no limit if negative.
	// An import that would exceed it uses the deepest level that fits, and the
	// report has what was left out.
	Budget int
	// Job distinguishes traces of different jobs and becomes the attribute
	// training.job. ServiceName is service.name, "pytorch" if empty.
	Job, ServiceName string
}

// SpanReport counts the exported spans.
type SpanReport struct {
	// Asked and Used are levels; Used is lower if the budget was too small.
	Asked Level `json:"asked_level"`
	Used  Level `json:"used_level"`
	// Exported counts spans. LeftOut counts rows without a span, by level.
	Exported int64            `json:"exported"`
	LeftOut  map[string]int64 `json:"left_out,omitempty"`
	// Err is the first error of the exporter.
	Err error `json:"error,omitempty"`
}

func (r *SpanReport) text(b *strings.Builder) {
	display.Fprintf(b, "spans: %d exported at level %s", r.Exported, r.Used)
	if r.Used != r.Asked {
		display.Fprintf(b, " (%s requested, beyond the budget)", r.Asked)
	}
	for _, k := range slices.Sorted(maps.Keys(r.LeftOut)) {
		display.Fprintf(b, ", %d of level %s dropped", r.LeftOut[k], k)
	}
	b.WriteByte('\n')
	if r.Err != nil {
		display.Fprintf(b, "  warning: %s\n", r.Err)
	}
}

const spanBatch = 512

// spanWriter converts rows to finished spans. A nil writer does nothing.
type spanWriter struct {
	ctx    context.Context
	opts   SpanOptions
	report *SpanReport
	max    int // the deepest level
	left   int64
	batch  tracetest.SpanStubs

	res  *resource.Resource
	seed [32]byte
}

// newSpanWriter chooses the level that the budget allows.
func newSpanWriter(ctx context.Context, o *SpanOptions, procs []*process) *spanWriter {
	if o == nil || o.Exporter == nil {
		return nil
	}
	w := &spanWriter{ctx: context.WithoutCancel(ctx), opts: *o, report: &SpanReport{LeftOut: map[string]int64{}}}
	deepest := slices.Index(levels[:], w.opts.Level)
	if deepest < 0 {
		deepest = levelAnnotation
	}
	if w.opts.Budget == 0 {
		w.opts.Budget = 10_000
	}
	if w.opts.ServiceName == "" {
		w.opts.ServiceName = "pytorch"
	}
	var counts [levelCount]int64
	for _, p := range procs {
		counts[levelStep]++ // the root of what is outside all steps
		counts[levelPhase] += 2 * int64(len(p.envelopes))
		for i, n := range p.levels {
			counts[i] += n
		}
	}
	w.left = int64(w.opts.Budget)
	if w.left < 0 {
		w.left = 1 << 62
	}
	total := counts[levelStep]
	w.max = levelStep
	for l := levelPhase; l <= deepest; l++ {
		if total+counts[l] > w.left {
			break
		}
		total += counts[l]
		w.max = l
	}
	for l := w.max + 1; l < levelCount; l++ {
		if counts[l] > 0 {
			w.report.LeftOut[string(levels[l])] = counts[l]
		}
	}
	w.report.Asked, w.report.Used = levels[deepest], levels[w.max]
	return w
}

// process starts the spans of one file: its resource and its outermost span.
func (w *spanWriter) process(p *process) {
	if w == nil {
		return
	}
	word := identity.Field.Attribute
	attrs := []attribute.KeyValue{
		attribute.String(word(identity.Service), w.opts.ServiceName),
		attribute.String(word(identity.Host), p.host),
		attribute.Int64(word(identity.PID), p.pid),
	}
	instance := p.host + "/" + strconv.FormatInt(p.pid, 10)
	if p.rank >= 0 {
		instance += "/" + strconv.FormatInt(p.rank, 10)
		attrs = append(attrs, attribute.Int64(word(identity.Rank), p.rank))
	}
	if p.world >= 0 {
		attrs = append(attrs, attribute.Int64(word(identity.WorldSize), p.world))
	}
	attrs = append(attrs, attribute.String(word(identity.Instance), instance))
	if w.opts.Job != "" {
		attrs = append(attrs, attribute.String(word(identity.Job), w.opts.Job))
	}
	for _, l := range p.lanes.device {
		if name := p.deviceNames[l.device]; name != "" {
			attrs = append(attrs, attribute.String("gpu.name", name))
			break
		}
	}
	w.res = resource.NewSchemaless(attrs...)
	w.seed = sha256.Sum256([]byte(fmt.Sprintf("%s\x00%s\x00%d\x00%d\x00%d", w.opts.Job, p.host, p.pid, p.rank, p.window[0]+p.base)))
	w.emit(tracetest.SpanStub{
		Name: "profile", SpanContext: w.context(-1, w.rootID(-1)),
		StartTime: w.time(p, p.window[0]), EndTime: w.time(p, p.window[1]),
		Attributes: []attribute.KeyValue{attribute.String("pytorch.trace", p.name)},
	})
}

// spanID derives an id from a number of the file.
func (w *spanWriter) spanID(space byte, n int64) trace.SpanID {
	x := binary.LittleEndian.Uint64(w.seed[:8]) + uint64(n)*0x9e3779b97f4a7c15 + uint64(space)<<56
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	var id trace.SpanID
	binary.BigEndian.PutUint64(id[:], x|1)
	return id
}

func (w *spanWriter) rootID(step int32) trace.SpanID { return w.spanID(1, int64(step)) }

func (w *spanWriter) context(step int32, id trace.SpanID) trace.SpanContext {
	var tid trace.TraceID
	sum := w.seed
	binary.LittleEndian.PutUint32(sum[8:], uint32(step)^binary.LittleEndian.Uint32(sum[8:]))
	copy(tid[:], sum[8:24])
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: tid, SpanID: id, TraceFlags: trace.FlagsSampled})
}

func (w *spanWriter) time(p *process, t int64) time.Time { return time.Unix(0, p.wall(t)) }

// open decides whether a host row becomes a span.
func (w *spanWriter) open(f *frame) {
	if w == nil {
		return
	}
	level := f.spanLevel()
	if level > w.max {
		return
	}
	id := w.spanID(2, f.ord)
	if level == levelStep && f.step >= 0 {
		id = w.rootID(f.step)
	}
	f.spanID = binary.BigEndian.Uint64(id[:])
}

// close exports the span of a host row.
func (w *spanWriter) close(p *process, s *sweep, f *frame) {
	if w == nil || f.spanID == 0 {
		return
	}
	stub := tracetest.SpanStub{Name: f.name, StartTime: w.time(p, f.r.start), EndTime: w.time(p, f.r.end)}
	stub.SpanContext = w.context(f.step, unpackID(f.spanID))
	if stub.SpanContext.SpanID() != w.rootID(f.step) {
		parent := w.rootID(f.step)
		for i := len(s.stack) - 2; i >= 0; i-- {
			if up := &s.stack[i]; up.spanID != 0 && up.step == f.step {
				parent = unpackID(up.spanID)
				break
			}
		}
		stub.Parent = w.context(f.step, parent)
	}
	dur := f.r.end - f.r.start
	a := []attribute.KeyValue{
		attribute.Int64("pytorch.event.id", f.ord),
		attribute.Int64("pytorch.thread.id", p.lanes.host[f.r.lane].tid),
		attribute.String("pytorch.scope", f.r.kind.String()),
		attribute.Float64("pytorch.cpu_time_total_us", float64(dur)/1000),
		attribute.Float64("pytorch.self_cpu_time_total_us", float64(max(dur-f.childDur, 0))/1000),
	}
	if f.devTotal > 0 {
		a = append(a, attribute.Float64("pytorch.device_time_total_us", float64(f.devTotal)/1000))
	}
	if f.hostMem != 0 {
		a = append(a, attribute.Int64("pytorch.cpu_memory_usage_bytes", f.hostMem))
	}
	if f.devMem != 0 {
		a = append(a, attribute.Int64("pytorch.device_memory_usage_bytes", f.devMem))
	}
	if f.rule > 0 {
		rule := &p.rules.rules[f.rule-1]
		a = append(a, attribute.String("dftracer.cat", rule.Cat), attribute.String("dftracer.name", rule.Name))
	}
	if f.region != 0 {
		a = append(a, attribute.String("pytorch.compile_id", p.names.text[f.region]))
	}
	if f.recompute {
		a = append(a, attribute.Bool("pytorch.recompute", true))
	}
	if t := f.tie; t != nil {
		a = append(a, attribute.Int64("pytorch.sequence_nr", t.seq))
		if t.backward && w.max >= levelOp {
			stub.Links = []sdktrace.Link{{SpanContext: w.context(t.step, w.spanID(2, t.ord)), Attributes: []attribute.KeyValue{attribute.String("pytorch.fwd_op", t.name)}}}
		}
	}
	stub.Attributes = w.step(p, f.step, a)
	w.emit(stub)
}

func unpackID(v uint64) (id trace.SpanID) {
	binary.BigEndian.PutUint64(id[:], v)
	return id
}

func (w *spanWriter) step(p *process, step int32, a []attribute.KeyValue) []attribute.KeyValue {
	if n, ok := p.stepNumber(step); ok {
		a = append(a, attribute.Int64("step", n))
	}
	return a
}

// phase exports an inferred interval of forward or backward.
func (w *spanWriter) phase(p *process, name string, v *envelope, device int64) {
	if w == nil || w.max < levelPhase {
		return
	}
	attrs := []attribute.KeyValue{attribute.Bool("inferred", true)}
	if device > 0 {
		attrs = append(attrs, attribute.Float64("pytorch.device_time_total_us", float64(device)/1000))
	}
	space := byte(4)
	if strings.HasSuffix(name, "backward") {
		space = 5
	}
	w.emit(tracetest.SpanStub{
		Name: name, SpanContext: w.context(v.step, w.spanID(space, v.start^int64(v.lane)<<40)), Parent: w.context(v.step, w.rootID(v.step)),
		StartTime: w.time(p, v.start), EndTime: w.time(p, v.end),
		Attributes: w.step(p, v.step, attrs),
	})
}

// device exports a device row. It runs later than its launch, so it is a child
// of the step with a link to the launch.
func (w *spanWriter) device(p *process, r *row, name, ai string) {
	if w == nil {
		return
	}
	level := levelKernel
	if ai != "" {
		level = levelAnnotation
	}
	if level > w.max {
		return
	}
	a := []attribute.KeyValue{
		attribute.Int64("gpu.id", r.b), attribute.Int64("gpu.stream", r.c), attribute.String("pytorch.scope", r.kind.String()),
	}
	if r.a >= 0 && r.kind != kineto.KindKernel {
		a = append(a, attribute.Int64("bytes", r.a))
	}
	if ai != "" {
		cat, leaf, _ := strings.Cut(ai, ".")
		a = append(a, attribute.String("dftracer.cat", cat), attribute.String("dftracer.name", leaf))
	}
	if op := p.names.opOf(r); op != "" {
		a = append(a, attribute.String("pytorch.op", op))
	}
	stub := tracetest.SpanStub{
		Name: name, SpanContext: w.context(r.step, w.spanID(3, r.seq)), Parent: w.context(r.step, w.rootID(r.step)),
		StartTime: w.time(p, r.start), EndTime: w.time(p, r.end), Attributes: w.step(p, r.step, a),
	}
	if r.flags&flagLinked != 0 && w.max >= levelKernel {
		stub.Links = []sdktrace.Link{{SpanContext: w.context(r.step, w.spanID(2, r.ord))}}
	}
	w.emit(stub)
}

func (w *spanWriter) emit(stub tracetest.SpanStub) {
	if w.left <= 0 {
		w.report.LeftOut["over budget"]++
		return
	}
	w.left--
	stub.SpanKind = trace.SpanKindInternal
	stub.Resource = w.res
	stub.InstrumentationScope = instrumentation.Scope{Name: "github.com/trainspan/trainspan/integrations/pytorch"}
	w.batch = append(w.batch, stub)
	if len(w.batch) >= spanBatch {
		w.flush()
	}
}

func (w *spanWriter) flush() {
	if w == nil || len(w.batch) == 0 {
		return
	}
	err := w.opts.Exporter.ExportSpans(w.ctx, w.batch.Snapshots())
	if err != nil {
		if w.report.Err == nil {
			w.report.Err = textError{fmt.Errorf("pytorch: export spans: %w", err)}
		}
	} else {
		w.report.Exported += int64(len(w.batch))
	}
	w.batch = nil
}

// Level is the lowest level of rows that an import sends as OpenTelemetry spans.
// Each level includes those before it. Empty means LevelAnnotation.
type Level string

// The levels.
const (
	LevelStep       Level = "step"       // one span per ProfilerStep
	LevelPhase      Level = "phase"      // data loading, forward, backward, optimizer step, checkpoint
	LevelAnnotation Level = "annotation" // user annotations, compiled regions, collectives, transfers
	LevelOp         Level = "op"         // operators
	LevelKernel     Level = "kernel"     // kernels, copies, runtime calls
)

// levels are in the order of their depth.
var levels = [levelCount]Level{LevelStep, LevelPhase, LevelAnnotation, LevelOp, LevelKernel}

const (
	levelStep = iota
	levelPhase
	levelAnnotation
	levelOp
	levelKernel
	levelCount
)
