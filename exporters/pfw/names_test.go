package pfw_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// TestOneNameByEveryRoute checks that a span has the same name in the trace whether its
// start was seen or not.
func TestOneNameByEveryRoute(t *testing.T) {
	live, livePath := newTrace(t, nil)
	laterPath := filepath.Join(t.TempDir(), "later.pfw")
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(live), sdktrace.WithBatcher(pfw.New(laterPath, nil)))
	var want []string
	for _, name := range []string{"model_forward", "megatron.train_step", "work", "dl.training.checkpoint.save"} {
		for _, category := range []string{"", "mine", "dftracer"} {
			for _, event := range []string{"", "fwd"} {
				for range 2 { // the second span finds the cached name
					_, s := tp.Tracer("my.lib").Start(context.Background(), name, trace.WithAttributes(
						attribute.String(spans.AttrCategory, category), attribute.String(spans.AttrName, event)))
					s.End()
					cat, ev := vocab.TraceName("my.lib", name, category, event)
					want = append(want, cat+"/"+ev)
				}
			}
		}
	}
	if err := tp.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	for _, path := range []string{livePath, laterPath} {
		var got []string
		for _, ev := range dftest.Events(t, path) {
			if ev.Phase == dftracer.PhaseComplete && ev.Cat != dftracer.CatDFTracer {
				got = append(got, ev.Cat+"/"+ev.Name)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v\nwant %v", filepath.Base(path), got, want)
		}
	}
}
