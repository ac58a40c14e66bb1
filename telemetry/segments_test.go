package telemetry_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

func segmented(sent *tracetest.InMemoryExporter, every time.Duration) func(*config.Base, *telemetry.TrainingTelemetryBuilder) {
	return func(c *config.Base, b *telemetry.TrainingTelemetryBuilder) {
		c.ExplicitTimeWindow = -1
		c.Training.LogEveryNTrainIterations = config.Value(50)
		b.WithSpanExporter(kept{sent}).WithSegment(every)
	}
}

// A run of 72 hours, cut every ten minutes: the segments of a span add up to
// the span, each links to the previous one, every parent exists, and nothing is
// kept of finished spans.
func TestSegmentsOfALongRun(t *testing.T) {
	sent := tracetest.NewInMemoryExporter()
	j := newJob(t, segmented(sent, 10*time.Minute))
	startTraining(t, j)
	const hours, perHour = 72, 60
	start := j.clock.Now()
	for hour := range hours {
		started(t)(j.cb.OnEpochStart(j.ctx, hour))
		for range perHour {
			j.iteration(t, time.Minute-time.Millisecond)
			_, s := j.tel.StartSpan(j.ctx, "custom")
			j.clock.pass(time.Millisecond)
			s.End()
			j.tel.Rotate(j.clock.Now())
			if held := j.tel.Held(); held > 8 {
				t.Fatalf("%d spans are remembered, want at most 8", held)
			}
		}
		check(t, j.cb.OnEpochEnd(j.ctx))
		check(t, j.tel.ForceFlush(j.ctx))
	}
	end := j.clock.Now()
	check(t, j.cb.OnTrainEnd(j.ctx))
	check(t, j.cb.OnAppEnd(j.ctx))
	if held := j.tel.Held(); held != 0 {
		t.Errorf("%d spans are remembered after the end, want 0", held)
	}

	ids := map[trace.SpanID]bool{}
	total := map[string]time.Duration{}
	segments := map[string]int{}
	last := map[string]tracetest.SpanStub{}
	for _, s := range sent.GetSpans() {
		if ids[s.SpanContext.SpanID()] {
			t.Fatalf("two spans have the ID %s (%s), want different ones", s.SpanContext.SpanID(), s.Name)
		}
		ids[s.SpanContext.SpanID()] = true
		attrs := keyed(s.Attributes)
		index, cut := attrs["segment.index"].(int64)
		if s.Name != spans.TrainingLoop && s.Name != spans.Application {
			continue
		}
		if !cut || int(index) != segments[s.Name] {
			t.Fatalf("segment %d of %s has index %v, want the same number", segments[s.Name], s.Name, attrs["segment.index"])
		}
		if before, ok := last[s.Name]; ok {
			if !before.EndTime.Equal(s.StartTime) {
				t.Errorf("segment %d of %s starts at %s, want %s, the end of the one before", index, s.Name, s.StartTime, before.EndTime)
			}
			if len(s.Links) != 1 || s.Links[0].SpanContext.SpanID() != before.SpanContext.SpanID() {
				t.Errorf("segment %d of %s has links %v, want one to the segment before, %s", index, s.Name, s.Links, before.SpanContext.SpanID())
			}
		}
		last[s.Name] = s
		segments[s.Name]++
		total[s.Name] += s.EndTime.Sub(s.StartTime)
	}
	for _, s := range sent.GetSpans() {
		if s.Parent.IsValid() && !ids[s.Parent.SpanID()] {
			t.Errorf("the parent of %s was never sent", s.Name)
		}
	}
	for _, name := range []string{spans.Application, spans.TrainingLoop} {
		if total[name] != end.Sub(start) || segments[name] < hours*6-1 {
			t.Errorf("%s: %d segments add up to %v, want %v", name, segments[name], total[name], end.Sub(start))
		}
		if keyed(last[name].Attributes)["segment.final"] != true {
			t.Errorf("last segment of %s has no segment.final", name)
		}
	}
	// The native records have one span.
	stops := 0
	for _, r := range j.mem.all() {
		if r.Kind == outputs.KindStop && r.Span.Name == spans.TrainingLoop {
			stops++
			if time.Duration(r.Span.Stop-r.Span.Start) != end.Sub(start) {
				t.Errorf("in the native records the loop lasts %v, want %v", time.Duration(r.Span.Stop-r.Span.Start), end.Sub(start))
			}
		}
	}
	if stops != 1 {
		t.Errorf("%d native stops of the loop, want 1", stops)
	}
}

// While a loop is open, a backend has its segments; what starts below is a
// child of the open segment.
func TestSegmentsOfAnOpenSpan(t *testing.T) {
	sent := tracetest.NewInMemoryExporter()
	j := newJob(t, segmented(sent, time.Minute))
	startTraining(t, j)
	j.iteration(t, time.Second)
	j.clock.pass(time.Hour)
	j.tel.Rotate(j.clock.Now())
	_, s := j.tel.StartSpan(j.ctx, "later")
	s.End()
	check(t, j.tel.ForceFlush(j.ctx))
	names := map[string]tracetest.SpanStub{}
	for _, s := range sent.GetSpans() {
		names[s.Name] = s
	}
	loop, ok := names[spans.TrainingLoop]
	if !ok || loop.EndTime.Sub(loop.StartTime) != time.Hour+time.Second {
		t.Fatalf("the open loop was not exported with 1 h 1 s: %v", fmt.Sprint(names))
	}
	if attrs := keyed(loop.Attributes); attrs["segment.final"] != nil || attrs["segment.index"] != int64(0) {
		t.Errorf("attributes %v, want segment.index 0 and no segment.final", attrs)
	}
	if names["later"].Parent.SpanID() == loop.SpanContext.SpanID() {
		t.Error("the parent of a later span is an ended segment, want the open one")
	}
	if err := j.cb.OnTrainEnd(j.ctx, callbacks.End{}); err != nil {
		t.Fatal(err)
	}
	check(t, j.tel.ForceFlush(j.ctx))
	all := sent.GetSpans()
	if final := all[len(all)-1]; final.SpanContext.SpanID() != names["later"].Parent.SpanID() || keyed(final.Attributes)["segment.of"] != loop.SpanContext.SpanID().String() {
		t.Errorf("final segment %+v, want the parent of later, a segment of the loop", final)
	}
}

func TestShortRunsAreNotCut(t *testing.T) {
	sent := tracetest.NewInMemoryExporter()
	j := newJob(t, segmented(sent, time.Minute))
	startTraining(t, j)
	j.iteration(t, time.Second)
	check(t, j.cb.OnAppEnd(j.ctx))
	for _, s := range sent.GetSpans() {
		if _, cut := keyed(s.Attributes)["segment.index"]; cut || len(s.Links) > 0 {
			t.Errorf("%s was cut into segments or has links, want neither", s.Name)
		}
	}
}

// A long span has more events than the SDK keeps of a span: each is in one segment, in
// order, and each segment is below the open one of its parent.
func TestSegmentsHaveAllEvents(t *testing.T) {
	const events = 1234
	sent := tracetest.NewInMemoryExporter()
	j := newJob(t, segmented(sent, 10*time.Minute))
	startTraining(t, j)
	app, loop := j.tel.Recorder().ActiveSpans(spans.Application)[0], j.tel.Recorder().ActiveSpans(spans.TrainingLoop)[0]
	for i := range events {
		loop.AddEvent("mine", attribute.Int("i", i))
		if i%10 == 0 {
			j.clock.pass(time.Second)
		}
		if i%3 == 0 {
			app.AddEvent("mine", attribute.Int("i", i))
		}
	}
	check(t, j.cb.OnTrainEnd(j.ctx))
	check(t, j.cb.OnAppEnd(j.ctx))
	check(t, j.tel.ForceFlush(j.ctx))
	seen := map[string]int64{}
	open := map[trace.SpanID]tracetest.SpanStub{}
	for _, s := range sent.GetSpans() {
		open[s.SpanContext.SpanID()] = s
	}
	for _, s := range sent.GetSpans() {
		for _, e := range s.Events {
			if e.Name != "mine" {
				continue
			}
			step := int64(1)
			if s.Name == spans.Application {
				step = 3
			}
			if got := keyed(e.Attributes)["i"]; got != seen[s.Name] {
				t.Fatalf("an event of %s is %v, want %d", s.Name, got, seen[s.Name])
			}
			seen[s.Name] += step
			if e.Time.Before(s.StartTime) || e.Time.After(s.EndTime) {
				t.Errorf("an event at %s is in a segment from %s to %s, want it inside", e.Time, s.StartTime, s.EndTime)
			}
		}
		if s.DroppedEvents != 0 {
			t.Errorf("a segment of %s lost %d events, want none", s.Name, s.DroppedEvents)
		}
		if up := open[s.Parent.SpanID()]; s.Name == spans.TrainingLoop && (s.StartTime.Before(up.StartTime) || s.StartTime.After(up.EndTime)) {
			t.Errorf("a segment begins at %s, its parent is from %s to %s", s.StartTime, up.StartTime, up.EndTime)
		}
	}
	if seen[spans.TrainingLoop] != events || seen[spans.Application] < events {
		t.Errorf("events %v, want all %d", seen, events)
	}
}
