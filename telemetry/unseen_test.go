package telemetry_test

import (
	"context"
	"testing"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/telemetry"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// A span that no output gets from OpenTelemetry is not made by the SDK. The program sees
// the same ids, flags and state in it as in one that the SDK makes.
func TestUnseenSpans(t *testing.T) {
	state, err := trace.ParseTraceState("vendor=1")
	if err != nil {
		t.Fatal(err)
	}
	remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{7}, SpanID: trace.SpanID{7}, TraceState: state, Remote: true})
	contexts := func(change func(*telemetry.TrainingTelemetryBuilder)) (all []trace.SpanContext) {
		b := telemetry.NewTrainingTelemetryBuilder().WithLogger(quietLog()).WithBaseConfig(base()).
			WithExporter(&memory{}).WithIDGenerator(&counting{})
		change(b)
		ctx := context.Background()
		tel, err := b.ConfigureProvider(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { check(t, tel.Shutdown(ctx)) }()
		start := func(ctx context.Context, options ...trace.SpanStartOption) context.Context {
			ctx, s := tel.Tracer("x").Start(ctx, "plain", options...)
			if !s.IsRecording() {
				t.Error("an open span does not record, want it to")
			}
			all = append(all, s.SpanContext())
			return ctx
		}
		below := start(start(ctx))
		start(trace.ContextWithRemoteSpanContext(ctx, remote))
		start(below, trace.WithNewRoot())
		ctx, s := tel.StartSpan(below, "own")
		all = append(all, s.SpanContext(), trace.SpanContextFromContext(ctx))
		s.End()
		return all
	}
	made := contexts(func(b *telemetry.TrainingTelemetryBuilder) {
		b.WithSpanProcessor(sdktrace.NewSimpleSpanProcessor(takesAll{}))
	})
	for name, change := range map[string]func(*telemetry.TrainingTelemetryBuilder){
		"no output of spans": func(*telemetry.TrainingTelemetryBuilder) {},
		"filtered": func(b *telemetry.TrainingTelemetryBuilder) {
			b.WithSpanExporter(takesAll{}, config.Export{Mode: config.Whitelist, SpanNames: []string{"other"}}).WithTraces(config.Traces{Budget: -1})
		},
		"a sampler": func(b *telemetry.TrainingTelemetryBuilder) { b.WithSampler(sdktrace.AlwaysSample()) },
	} {
		for i, got := range contexts(change) {
			if !got.Equal(made[i]) {
				t.Errorf("%s: span %d has the context %+v, want %+v", name, i, got, made[i])
			}
		}
	}
}
