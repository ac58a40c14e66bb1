package e2e

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/test/e2e/servers"
)

// TestSegments checks a training loop in Jaeger while it is open, and adds up
// its segments at the end.
func TestSegments(t *testing.T) {
	j := startJaeger(t, servers.JaegerOptions{})
	name, w := service(t), &spanKeeper{}
	tel := configure(t, newBuilder(name).WithSpanProcessor(w).WithSegment(300*time.Millisecond), send(config.OTLPGRPC, "http://"+j.GRPC))
	cb, ctx := callbacks.New(tel), t.Context()
	cb.OnAppStart(ctx)
	cb.OnTrainStart(ctx, callbacks.TrainStart{})
	l := &loop{net: newNetwork(16, 8, 8), cb: cb}
	var open []servers.Span
	until.Nil(t, func() (err error) {
		l.step(ctx)
		if open, err = j.Query.Spans(ctx, name); err != nil {
			return err
		}
		if n := len(named(open, spans.TrainingLoop)); n < 3 {
			return fmt.Errorf("Jaeger has %d segments of the open training loop, want 3", n)
		}
		return nil
	})
	for _, s := range open {
		if s.Attributes["segment.final"] != nil {
			t.Errorf("segment of %s is final while the span is open", s.Name)
		}
	}
	if len(named(open, spans.ModelForward)) == 0 {
		t.Error("no finished span is below the open loop")
	}
	cb.OnTrainEnd(ctx)
	cb.OnAppEnd(ctx)
	stats := tel.Stats()
	if stats.ExportedSpans != stats.EndedSpans {
		t.Fatalf("stats %+v, want every span exported", stats)
	}
	found := spansOf(t, j.Query, name, int(stats.ExportedSpans))
	for _, long := range []string{spans.Application, spans.TrainingLoop} {
		checkSegments(t, named(found, long), w, long)
	}
	ids := byID(found)
	for _, s := range found {
		if _, ok := ids[s.ParentID]; s.ParentID != "" && !ok {
			t.Errorf("parent of %s was not exported", s.Name)
		}
	}
}

// TestTracesOfWindows spreads a run over traces and reads each of them from
// Jaeger: each is within its budget, every parent is in the trace of its child,
// and links lead from trace to trace back to the first.
func TestTracesOfWindows(t *testing.T) {
	j := startJaeger(t, servers.JaegerOptions{})
	name, w := service(t), &spanKeeper{}
	const window, steps, budget = 10, 45, 64
	tel := configure(t, newBuilder(name).WithSpanProcessor(w).WithTraces(config.Traces{
		Split: config.TracePerWindow, Window: window, Budget: budget,
	}), send(config.OTLPHTTP, "http://"+j.HTTP))
	cb, ctx := callbacks.New(tel), t.Context()
	cb.OnAppStart(ctx)
	cb.OnTrainStart(ctx, callbacks.TrainStart{})
	l := &loop{net: newNetwork(16, 8, 8), cb: cb}
	for range steps {
		l.step(ctx)
	}
	cb.OnTrainEnd(ctx)
	cb.OnAppEnd(ctx)
	found := spansOf(t, j.Query, name, int(tel.Stats().EndedSpans))
	ids, traces := byID(found), map[string]int{}
	var begins []servers.Span // of traces after the first
	for _, s := range found {
		traces[s.TraceID]++
		if up, ok := ids[s.ParentID]; s.ParentID != "" && (!ok || up.TraceID != s.TraceID) {
			t.Errorf("parent of %s is not in its trace", s.Name)
		}
		if s.ParentID == "" && s.Name != spans.Application {
			t.Errorf("%s is a root, want only the application", s.Name)
		}
		if s.Name == spans.Application && s.Attributes["segment.index"] != int64(0) {
			begins = append(begins, s)
		}
	}
	for id, n := range traces {
		if n > budget {
			t.Errorf("trace %s has %d spans, want at most %d", id, n, budget)
		}
	}
	if most := 1 + 2*(steps+window-1)/window; len(traces) < 1+2*(steps/window) || len(traces) > most || len(begins) != len(traces)-1 {
		t.Errorf("%d traces, %d segments; want %d to %d traces, one segment less", len(traces), len(begins), 1+2*(steps/window), most)
	}
	for _, s := range begins {
		if before := s.Links[len(s.Links)-1]; ids[before.SpanID].TraceID != before.TraceID || before.TraceID == s.TraceID ||
			before.Attributes["link.kind"] != "segment.previous" {
			t.Errorf("links of a segment %v, want one to the segment before, in another trace", s.Links)
		}
	}
	for _, long := range []string{spans.Application, spans.TrainingLoop} {
		checkSegments(t, named(found, long), w, long)
	}
}

// checkSegments checks that segments are linked to each other, have no gaps,
// and add up to the span that ended in the process.
func checkSegments(t *testing.T, segments []servers.Span, w *spanKeeper, name string) {
	t.Helper()
	slices.SortFunc(segments, func(a, b servers.Span) int { return cmp.Compare(a.Start, b.Start) })
	if len(segments) < 3 {
		t.Fatalf("%s has %d segments, want at least 3", name, len(segments))
	}
	var sum int64
	for i, s := range segments {
		sum += s.End - s.Start
		last := i == len(segments)-1
		if s.Attributes["segment.index"] != int64(i) || (s.Attributes["segment.final"] == true) != last {
			t.Errorf("%s: segment %d of %d has %v, want its index, final only in the last", name, i, len(segments), s.Attributes)
		}
		if i == 0 {
			continue
		}
		before := segments[i-1]
		if s.Start != before.End {
			t.Errorf("%s: gap of %d ns between segments %d and %d, want none", name, s.Start-before.End, i-1, i)
		}
		if len(s.Links) == 0 || s.Links[len(s.Links)-1].SpanID != before.SpanID {
			t.Errorf("%s: segment %d has the links %v, want one to %s", name, i, s.Links, before.SpanID)
		}
		if s.Attributes["segment.of"] != segments[0].SpanID {
			t.Errorf("%s: segment %d is of %v, want %s", name, i, s.Attributes["segment.of"], segments[0].SpanID)
		}
	}
	for _, s := range w.spans {
		if want := s.EndTime().UnixNano() - s.StartTime().UnixNano(); s.Name() == name && sum != want {
			t.Errorf("the segments of %s add up to %d ns, want %d", name, sum, want)
		}
	}
}
