package pfw_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/exporters/pfw"
	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/tracefile"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// TestOpenSpansAreVisible checks that the file of a killed process shows every span and
// scope that was open.
func TestOpenSpansAreVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, path := newTrace(t, &pfw.Options{BeginAfter: 5 * time.Millisecond})
		tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p))
		ctx, s := tp.Tracer("example.com/db").Start(context.Background(), "migrate", trace.WithAttributes(attribute.Int("n", 7)))
		scope := p.ScopeKind("comm", "all_reduce").Start(ctx, nil, dispatch.ScopeStart{})
		begun := make(map[string]dftracer.Event)
		time.Sleep(time.Second)
		if err := tp.ForceFlush(context.Background()); err != nil {
			t.Fatal(err)
		}
		dftest.CheckWith(t, path, &dftracer.ValidateOptions{AllowUnfinished: true})
		for _, ev := range dftest.Events(t, path) {
			if key, value := ev.Meta(); key == tracefile.KeySpanBegin {
				begun[value] = ev
			}
		}
		if len(begun) != 2 || text(t, begun["migrate"], "begin_cat") != "db" || text(t, begun["migrate"], "n") != "7" ||
			begun["all_reduce"].Level != 2 {
			t.Errorf("begin records %v, want migrate (db, n 7) and all_reduce on level 2", begun)
		}
		scope.End()
		s.End()
		if err := tp.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		report := dftest.Check(t, path)
		if report.Open != 0 || report.Counts["dftracer/CM/M"] != 2 || report.Counts["db/migrate/X"] != 1 {
			t.Errorf("%d open, counts %v; want none open, 2 begin records, 1 migrate", report.Open, report.Counts)
		}
	})
}

func TestNoBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, path := newTrace(t, &pfw.Options{NoBegin: true, BeginAfter: time.Millisecond})
		s := p.ScopeKind("pipeline", "train").Start(context.Background(), nil, dispatch.ScopeStart{})
		time.Sleep(5 * time.Second) // no heartbeat yet
		s.End()
		if err := p.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		if report := dftest.Check(t, path); report.Counts["dftracer/CM/M"] != 0 {
			t.Errorf("counts %v, want no begin records", report.Counts)
		}
	})
}
