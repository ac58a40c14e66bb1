package telemetry_test

import (
	"context"
	"testing"

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
