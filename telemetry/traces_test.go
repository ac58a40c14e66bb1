package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/record/segment"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"github.com/trainspan/trainspan/telemetry/outputs"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// spread returns a job that exports all spans, split into traces as configured.
func spread(sent *tracetest.InMemoryExporter, traces config.Traces, more ...func(*config.Base, *telemetry.TrainingTelemetryBuilder)) func(*config.Base, *telemetry.TrainingTelemetryBuilder) {
	return func(c *config.Base, b *telemetry.TrainingTelemetryBuilder) {
		segmented(sent, 10*time.Minute)(c, b)
		exportAll(c, b)
		b.WithTraces(traces)
		for _, m := range more {
			m(c, b)
		}
	}
}

// byTrace returns spans by trace, and checks what always holds: ids are unique,
// every parent is in the trace of its child, and parents and links connect all
// spans.
func byTrace(t *testing.T, sent []tracetest.SpanStub) map[trace.TraceID][]tracetest.SpanStub {
	t.Helper()
	return together(t, sent, true)
}

// together is byTrace for spans that may be disconnected.
func together(t *testing.T, sent []tracetest.SpanStub, connected bool) map[trace.TraceID][]tracetest.SpanStub {
	t.Helper()
	traces := map[trace.TraceID][]tracetest.SpanStub{}
	home := map[trace.SpanID]trace.TraceID{}
	joined := map[trace.SpanID]trace.SpanID{} // for merging connected spans
	var find func(id trace.SpanID) trace.SpanID
	find = func(id trace.SpanID) trace.SpanID {
		if joined[id] != id {
			joined[id] = find(joined[id])
		}
		return joined[id]
	}
	for _, s := range sent {
		id := s.SpanContext.SpanID()
		if _, twice := home[id]; twice {
			t.Fatalf("two spans have the ID %s (%s), want different ones", id, s.Name)
		}
		home[id], joined[id] = s.SpanContext.TraceID(), id
		traces[s.SpanContext.TraceID()] = append(traces[s.SpanContext.TraceID()], s)
	}
	for _, s := range sent {
		id := s.SpanContext.SpanID()
		if up := s.Parent.SpanID(); up.IsValid() {
			if home[up] != s.SpanContext.TraceID() || s.Parent.TraceID() != s.SpanContext.TraceID() {
				t.Fatalf("the parent of a %s is in trace %s, want %s", s.Name, home[up], s.SpanContext.TraceID())
			}
			joined[find(id)] = find(up)
		}
		for _, l := range s.Links {
			if home[l.SpanContext.SpanID()] != l.SpanContext.TraceID() {
				t.Fatalf("a %s links to a span that was never sent", s.Name)
			}
			joined[find(id)] = find(l.SpanContext.SpanID())
		}
	}
	first := sent[0].SpanContext.SpanID()
	for _, s := range sent {
		if connected && find(s.SpanContext.SpanID()) != find(first) {
			t.Fatalf("no link leads to a %s of %s", s.Name, s.StartTime)
		}
	}
	return traces
}

// sums adds up the segments of each long span.
func sums(sent []tracetest.SpanStub) map[string]time.Duration {
	total := map[string]time.Duration{}
	for _, s := range sent {
		total[s.Name] += s.EndTime.Sub(s.StartTime)
	}
	return total
}

// A run of 72 hours: no trace exceeds its budget, every span can be reached,
// segments add up, and nothing is kept of finished spans.
func TestTracesOfALongRun(t *testing.T) {
	const hours, perHour, share = 24, 60, 100
	for _, tc := range []struct {
		traces config.Traces
		least  int
	}{
		{config.Traces{Budget: -1}, 1},
		{config.Traces{}, 2},
		{config.Traces{Budget: 8 * share}, 40},
		{config.Traces{Split: config.TracePerEpoch}, 1 + hours},
		{config.Traces{Split: config.TracePerEpoch, Budget: 8 * share}, 1 + 2*hours},
		{config.Traces{Split: config.TracePerWindow, Window: 40, Budget: -1}, 1 + hours*perHour/40},
		{config.Traces{Split: config.TracePerWindow, Window: 40, Budget: 8 * share}, 1 + 2*hours*perHour/40},
	} {
		t.Run(fmt.Sprintf("%s %d", tc.traces.Split, tc.traces.Budget), func(t *testing.T) {
			sent := tracetest.NewInMemoryExporter()
			j := newJob(t, spread(sent, tc.traces))
			startTraining(t, j)
			start := j.clock.Now()
			for hour := range hours {
				epoch := started(t)(j.cb.OnEpochStart(j.ctx, hour))
				for range perHour {
					step := started(t)(j.cb.OnTrainingSingleIterationStart(epoch))
					_, s := j.tel.StartSpan(step, "custom")
					j.clock.pass(time.Minute)
					s.End()
					check(t, j.cb.OnTrainingSingleIterationEnd(step))
					j.tel.Rotate(j.clock.Now())
					if held := j.tel.Held(); held > 8 {
						t.Fatalf("%d spans are remembered, want at most 8", held)
					}
				}
				check(t, j.cb.OnEpochEnd(epoch))
				check(t, j.tel.ForceFlush(j.ctx))
			}
			took := j.clock.Now().Sub(start)
			check(t, j.cb.OnTrainEnd(j.ctx))
			check(t, j.cb.OnAppEnd(j.ctx))
			if held := j.tel.Held(); held != 0 {
				t.Errorf("%d spans are remembered after the end, want 0", held)
			}
			all := sent.GetSpans()
			traces := byTrace(t, all)
			if len(traces) < tc.least || tc.least == 1 && len(traces) != 1 {
				t.Errorf("%d traces, want at least %d", len(traces), tc.least)
			}
			for id, in := range traces {
				roots, iterations := 0, map[trace.SpanID]bool{}
				for _, s := range in {
					if !s.Parent.IsValid() {
						roots++
					}
					if s.Name == spans.TrainingIteration {
						iterations[s.SpanContext.SpanID()] = true
					}
				}
				for _, s := range in {
					if s.Name == "custom" && !iterations[s.Parent.SpanID()] {
						t.Fatal("the spans of an iteration are in two traces, want one")
					}
				}
				if most := int(segment.Share(&tc.traces, 8)); most > 0 && len(in) > most {
					t.Errorf("trace %s has %d spans, want at most %d", id, len(in), most)
				}
				// Segments of the application are the only roots.
				if roots != count(in, spans.Application) {
					t.Errorf("trace %s has %d roots, want %d, its applications", id, roots, count(in, spans.Application))
				}
			}
			total := sums(all)
			for name, want := range map[string]time.Duration{
				spans.Application: took, spans.TrainingLoop: took, spans.Epoch: took, spans.TrainingIteration: took, "custom": took,
			} {
				if total[name] != want {
					t.Errorf("spans of %s add up to %v, want %v", name, total[name], want)
				}
			}
		})
	}
}

func count(in []tracetest.SpanStub, name string) (n int) {
	for _, s := range in {
		if s.Name == name {
			n++
		}
	}
	return n
}

// Ranks without communication are in the same traces, window by window, even if
// an iteration has more spans on one of them.
func TestRanksShareTheTracesOfTheirWindows(t *testing.T) {
	for _, split := range []string{config.TracePerEpoch, config.TracePerWindow} {
		t.Run(split, func(t *testing.T) {
			var ids [2][]trace.TraceID
			for rank := range ids {
				j := newJob(t, spread(tracetest.NewInMemoryExporter(), config.Traces{Split: split, Window: 3}),
					func(_ *config.Base, b *telemetry.TrainingTelemetryBuilder) {
						b.WithIdentity(telemetry.Identity{Ranks: config.Ranks{Job: "job-7"}})
					})
				startTraining(t, j)
				for epoch := range 2 {
					in := started(t)(j.cb.OnEpochStart(j.ctx, epoch))
					for range 6 {
						step := started(t)(j.cb.OnTrainingSingleIterationStart(in))
						for range 1 + 5*rank {
							_, s := j.tel.StartSpan(step, "custom")
							s.End()
						}
						ids[rank] = append(ids[rank], trace.SpanContextFromContext(step).TraceID())
						j.clock.pass(time.Second)
						check(t, j.cb.OnTrainingSingleIterationEnd(step))
					}
					check(t, j.cb.OnEpochEnd(in))
				}
			}
			different := map[trace.TraceID]bool{}
			for i, id := range ids[0] {
				different[id] = true
				if ids[1][i] != id {
					t.Errorf("iteration %d is in traces %v and %v, want one", i, id, ids[1][i])
				}
			}
			if want := map[string]int{config.TracePerEpoch: 2, config.TracePerWindow: 4}[split]; len(different) != want {
				t.Errorf("%d traces, want %d", len(different), want)
			}
		})
	}
}

// Without epoch spans, the epoch that the job reports begins the trace. A loop
// that starts again at the first epoch gets new traces.
func TestTracesFollowTheReportedEpoch(t *testing.T) {
	sent := tracetest.NewInMemoryExporter()
	j := newJob(t, spread(sent, config.Traces{Split: config.TracePerEpoch}))
	startTraining(t, j)
	for _, epoch := range []int64{0, 0, 1, 0, 1} {
		j.tel.Progress().SetEpoch(epoch)
		j.iteration(t, time.Second)
	}
	check(t, j.cb.OnAppEnd(j.ctx))
	if n := len(byTrace(t, sent.GetSpans())); n != 1+4 {
		t.Errorf("%d traces, want %d", n, 1+4)
	}
}

// Events of an open loop belong to its current segment, in the trace of the
// iterations around them.
func TestEventsFollowTheSegments(t *testing.T) {
	sent := tracetest.NewInMemoryExporter()
	j := newJob(t, spread(sent, config.Traces{Split: config.TracePerWindow, Window: 10}), func(c *config.Base, _ *telemetry.TrainingTelemetryBuilder) {
		c.Training.LogEveryNTrainIterations = config.Value(5)
	})
	startTraining(t, j)
	for range 40 {
		j.iteration(t, time.Second)
	}
	check(t, j.cb.OnAppEnd(j.ctx))
	loops := map[trace.SpanID]tracetest.SpanStub{}
	for _, s := range sent.GetSpans() {
		if s.Name == spans.TrainingLoop {
			loops[s.SpanContext.SpanID()] = s
		}
	}
	updates := 0
	for i, r := range j.mem.all() {
		if r.Event.Name != spans.EventTrainingMetricsUpdate {
			continue
		}
		updates++
		segment := j.mem.segments[i]
		in := loops[segment.SpanID()]
		at := time.Unix(0, r.Event.Time)
		if segment.TraceID() != in.SpanContext.TraceID() || at.Before(in.StartTime) || at.After(in.EndTime) {
			t.Errorf("update at %s is in the segment from %s to %s, want the one of its time", at, in.StartTime, in.EndTime)
		}
	}
	if updates < 8 || len(loops) != 1+4 {
		t.Errorf("%d updates, %d segments; want 8 or more and 5", updates, len(loops))
	}
}

// An iteration with more spans than a trace may hold is continued in the next
// one, with links to where it began. Spans below follow.
func TestHugeIterationIsContinued(t *testing.T) {
	sent := tracetest.NewInMemoryExporter()
	j := newJob(t, spread(sent, config.Traces{Budget: 8 * 100}))
	startTraining(t, j)
	step := started(t)(j.cb.OnTrainingSingleIterationStart(j.ctx))
	tracer := j.tel.Tracer("user")
	for range 300 {
		ctx, s := tracer.Start(step, "op")
		_, below := tracer.Start(ctx, "kernel")
		below.End()
		s.End()
	}
	j.clock.pass(time.Second)
	check(t, j.cb.OnTrainingSingleIterationEnd(step))
	check(t, j.cb.OnAppEnd(j.ctx))
	for id, in := range byTrace(t, sent.GetSpans()) {
		if len(in) > 100 {
			t.Errorf("trace %s has %d spans, want at most 100", id, len(in))
		}
		for _, s := range in {
			if s.Name == "op" && count(in, spans.TrainingIteration) == 0 {
				if len(s.Links) != 1 || keyed(s.Links[0].Attributes)["link.kind"] != "parent" {
					t.Fatalf("links %v, want one of kind parent", s.Links)
				}
			}
		}
	}
	// The native records do not change.
	for _, r := range j.mem.all() {
		if r.Kind == outputs.KindStop && r.Span.Name == "op" && r.Span.ParentID != trace.SpanContextFromContext(step).SpanID() {
			t.Fatal("an op is not below its iteration")
		}
	}
}

// The trace of the process that started the job holds its beginning; the user's
// own id generator, and spans without any parent, work too.
func TestTracesWithoutTheJobsIDs(t *testing.T) {
	launcher := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, Remote: true,
	})
	random := func(_ *config.Base, b *telemetry.TrainingTelemetryBuilder) { b.WithIDGenerator(telemetry.RandomIDs()) }
	for name, tc := range map[string]struct {
		ctx  context.Context
		more func(*config.Base, *telemetry.TrainingTelemetryBuilder)
	}{
		"remote parent":                {trace.ContextWithRemoteSpanContext(context.Background(), launcher), func(*config.Base, *telemetry.TrainingTelemetryBuilder) {}},
		"random ids":                   {context.Background(), random},
		"remote parent and random ids": {trace.ContextWithRemoteSpanContext(context.Background(), launcher), random},
	} {
		t.Run(name, func(t *testing.T) {
			sent := tracetest.NewInMemoryExporter()
			j := newJob(t, spread(sent, config.Traces{Split: config.TracePerWindow, Window: 5, Budget: 8 * 40}, tc.more))
			j.ctx = started(t)(j.cb.OnAppStart(tc.ctx))
			j.ctx = started(t)(j.cb.OnTrainStart(j.ctx, callbacks.TrainStart{}))
			for range 20 {
				step := started(t)(j.cb.OnTrainingSingleIterationStart(j.ctx))
				for range 7 {
					_, s := j.tel.StartSpan(step, "custom")
					s.End()
				}
				j.clock.pass(time.Second)
				check(t, j.cb.OnTrainingSingleIterationEnd(step))
			}
			_, alone := j.tel.Tracer("user").Start(context.Background(), "alone", trace.WithNewRoot())
			alone.End()
			check(t, j.cb.OnAppEnd(j.ctx))
			all := sent.GetSpans()
			var run []tracetest.SpanStub
			for _, s := range all {
				if s.Name == "alone" {
					if s.Parent.IsValid() {
						t.Error("a root span has a parent, want none")
					}
					continue
				}
				if s.Parent.Equal(launcher) {
					s.Parent = trace.SpanContext{} // the launcher's own spans are elsewhere
				}
				s.Links = slices.DeleteFunc(slices.Clone(s.Links), func(l sdktrace.Link) bool { return l.SpanContext.Equal(launcher) })
				run = append(run, s)
			}
			traces := byTrace(t, run)
			if _, joined := traces[launcher.TraceID()]; joined != trace.SpanContextFromContext(tc.ctx).IsValid() {
				t.Errorf("in the launcher's trace: %v, want %v", joined, trace.SpanContextFromContext(tc.ctx).IsValid())
			}
			if len(traces) != 1+8 {
				t.Errorf("%d traces, want %d", len(traces), 1+8)
			}
			for id, in := range traces {
				if len(in) > 40 {
					t.Errorf("trace %s has %d spans, want at most 40", id, len(in))
				}
			}
		})
	}
}

// Many goroutines, many traces: nothing is lost or separated from its parent,
// and no trace exceeds its budget.
func TestTracesOfConcurrentSpans(t *testing.T) {
	sent := tracetest.NewInMemoryExporter()
	j := newJob(t, spread(sent, config.Traces{Budget: 8 * 64}))
	startTraining(t, j)
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for range 200 {
				ctx, s := j.tel.StartSpan(j.ctx, "outer")
				_, in := j.tel.StartSpan(ctx, "inner")
				j.tel.Rotate(j.clock.Now())
				j.clock.pass(time.Second)
				in.End()
				s.EndWith(telemetry.End{Err: errors.New("x")})
			}
		})
	}
	work.Wait()
	check(t, j.cb.OnAppEnd(j.ctx))
	all := sent.GetSpans()
	for id, in := range byTrace(t, all) {
		if len(in) > 64 {
			t.Errorf("trace %s has %d spans, want at most 64", id, len(in))
		}
	}
	if n := count(all, "outer") + count(all, "inner"); n != 8*200*2 {
		t.Errorf("%d spans, want %d", n, 8*200*2)
	}
}
