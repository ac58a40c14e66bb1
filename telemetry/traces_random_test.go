package telemetry_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/record/segment"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// randomSpans runs random spans of all kinds below each other.
type randomSpans struct {
	*job
	t      *testing.T
	r      *rand.Rand
	tracer trace.Tracer
	kind   dispatch.ScopeKind
}

func (w *randomSpans) below(ctx context.Context, depth int) {
	for range w.r.IntN(5) {
		if depth > 4 {
			return
		}
		w.clock.pass(time.Duration(w.r.IntN(int(time.Minute))))
		if w.r.IntN(10) == 0 {
			w.tel.Rotate(w.clock.Now())
		}
		given := ctx
		if w.r.IntN(4) == 0 {
			given = context.Background() // independent of open spans
		}
		switch w.r.IntN(5) {
		case 0:
			ctx, s := w.tel.StartSpan(given, fmt.Sprint("custom", w.r.IntN(3)))
			w.below(ctx, depth+1)
			s.End()
		case 1:
			ctx, s := w.tracer.Start(given, fmt.Sprint("plain", w.r.IntN(3)))
			w.below(ctx, depth+1)
			s.End()
		case 2:
			if s := w.kind.Start(given, nil, dispatch.ScopeStart{}); s != nil {
				w.below(s.Context(), depth+1)
				s.End()
			}
		case 3:
			ctx, s := w.tel.Start(given, spans.ValidationLoop)
			w.below(ctx, depth+1)
			s.End()
		case 4:
			_, s := w.tel.StartSpan(given, "outlives")
			defer s.End()
		}
	}
}

// With random filters, nesting and segments, the spans of a backend are
// connected, and no trace exceeds its budget.
func TestAnyRunIsConnected(t *testing.T) {
	names := []string{
		spans.Application, spans.TrainingLoop, spans.Epoch, spans.TrainingIteration, spans.ValidationLoop,
		"custom0", "custom1", "plain0", "plain1", "compute.forward",
	}
	seeds := uint64(300)
	if raceEnabled {
		seeds = 60
	}
	judged, many := 0, 0 // spans, and runs with several traces
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 1))
		sent := tracetest.NewInMemoryExporter()
		traces := config.Traces{
			Split:  []string{config.TracePerAttempt, config.TracePerEpoch, config.TracePerWindow}[r.IntN(3)],
			Window: 1 + r.IntN(3), Budget: []int{-1, 8 * 32, 8 * 50}[r.IntN(3)],
		}
		export := config.Export{Mode: config.ExportAll}
		if r.IntN(2) == 0 {
			export.Mode = config.Blacklist
			r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			export.SpanNames = slices.Clone(names[:1+r.IntN(4)])
		}
		j := newJob(t, func(c *config.Base, b *telemetry.TrainingTelemetryBuilder) {
			segmented(sent, 10*time.Minute)(c, b)
			b.WithExportCustomization(export).WithTraces(traces)
			if r.IntN(3) == 0 {
				b.WithIDGenerator(telemetry.RandomIDs())
			}
		})
		w := &randomSpans{job: j, t: t, r: r, tracer: j.tel.Tracer("user"), kind: dispatch.SourceOf(j.tel.TracerProvider()).ScopeKind("compute", "forward")}
		j.ctx = started(t)(j.cb.OnAppStart(context.Background()))
		w.below(j.ctx, 2)
		j.ctx = started(t)(j.cb.OnTrainStart(j.ctx, callbacks.TrainStart{}))
		for epoch := range 3 {
			ctx := started(t)(j.cb.OnEpochStart(j.ctx, epoch))
			for range 4 {
				step := started(t)(j.cb.OnTrainingSingleIterationStart(ctx))
				w.below(step, 0)
				j.clock.pass(time.Second)
				check(t, j.cb.OnTrainingSingleIterationEnd(step))
				w.below(ctx, 3)
			}
			check(t, j.cb.OnEpochEnd(ctx))
		}
		check(t, j.cb.OnAppEnd(j.ctx))
		if held := j.tel.Held(); held != 0 {
			t.Errorf("seed %d: %d spans are remembered, want 0", seed, held)
		}
		all := sent.GetSpans()
		if len(all) == 0 {
			continue
		}
		apart := slices.Contains(export.SpanNames, spans.Application) // then there may be several roots
		byID := together(t, all, !apart)
		judged += len(all)
		if len(byID) > 1 {
			many++
		}
		for id, in := range byID {
			if most := int(segment.Share(&traces, 8)); most > 0 && len(in) > most {
				t.Errorf("seed %d: trace %s has %d spans, want at most %d", seed, id, len(in), most)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d fails: %+v %+v", seed, traces, export)
		}
	}
	if uint64(judged) < 10*seeds || uint64(many) < seeds/2 {
		t.Errorf("%d spans and %d runs of several traces in %d seeds, want 10 and 0.5 per seed", judged, many, seeds)
	}
}
