package telemetry_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel/trace"
)

// The context of a span is the one that it was started with, with the span: values, the
// deadline and the cancellation are those of the program.
func TestContextOfASpan(t *testing.T) {
	tel := newJob(t).tel
	type key struct{}
	program, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "value"))
	ctx, s := tel.StartSpan(program, "outer")
	inner, below := tel.StartSpan(ctx, "inner")
	if got := trace.SpanFromContext(inner).SpanContext(); !got.Equal(below.SpanContext()) || got.Equal(s.SpanContext()) {
		t.Errorf("the context has %v, want %v", got, below.SpanContext())
	}
	if got := below.Parent(); got != s {
		t.Errorf("Parent() = %v, want the span of the context", got)
	}
	if got := inner.Value(key{}); got != "value" {
		t.Errorf("Value() = %v, want value", got)
	}
	child, stop := context.WithCancel(inner)
	defer stop()
	if err := child.Err(); err != nil {
		t.Errorf("Err() = %v, want nil", err)
	}
	cancel()
	<-child.Done()
	if inner.Err() == nil || child.Err() == nil {
		t.Errorf("context errors %v and %v after the cancellation, want both set", inner.Err(), child.Err())
	}
	if _, ok := inner.Deadline(); ok {
		t.Error("the context has a deadline, want none")
	}
	below.End()
	s.End()
}

// deep counts the stack frames below which Value is called.
type deep struct {
	context.Context
	frames *int
}

func (d deep) Value(key any) any {
	*d.frames = runtime.Callers(0, make([]uintptr, 1000))
	return d.Context.Value(key)
}

// The context of a span does not contain the ended spans that a loop left in the context
// that it uses again and again.
func TestContextsOfEndedSpansAreLeftOut(t *testing.T) {
	for name, start := range map[string]func(*job, context.Context) (context.Context, func()){
		"scopes": func(j *job, ctx context.Context) (context.Context, func()) {
			ctx, s := j.tel.Start(ctx, spans.ModelForward)
			return ctx, s.End
		},
		"callbacks": func(j *job, ctx context.Context) (context.Context, func()) {
			ctx, _ = j.cb.OnModelForwardStart(ctx)
			return ctx, func() { _ = j.cb.OnModelForwardEnd(ctx) }
		},
		"plain": func(j *job, ctx context.Context) (context.Context, func()) {
			ctx, s := j.tel.Tracer("t").Start(ctx, "x")
			return ctx, func() { s.End() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t)
			frames := 0
			ctx, app := j.tel.Start(deep{j.ctx, &frames}, spans.Application)
			depths := map[int]bool{}
			for range 50 {
				var end func()
				ctx, end = start(j, ctx)
				if got := telemetry.FromContext(ctx).Parent(); got != app {
					t.Fatalf("the parent is %v, want the application", got.Name())
				}
				ctx.Value(name)
				depths[frames] = true
				end()
			}
			if len(depths) != 1 {
				t.Errorf("a value is %d different numbers of frames away, want one", len(depths))
			}
			app.End()
		})
	}
}
