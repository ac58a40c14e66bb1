package delivery_test

import (
	"context"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/export/delivery"
	"go.opentelemetry.io/otel/attribute"
)

func TestOnEndAllocatesNothing(t *testing.T) {
	b := &backend{}
	p := delivery.New(b, &delivery.Options{MaxQueue: 4096, MaxBatch: 4096, Delay: time.Hour})
	s := span("x", attribute.String("k", "v"), attribute.Int("n", 1))
	for range 4096 { // the queue grows to its final size
		p.OnEnd(s)
	}
	if err := p.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(2000, func() { p.OnEnd(s) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkOnEnd(b *testing.B) {
	p := delivery.New(&backend{}, nil)
	s := span("x", attribute.String("k", "v"), attribute.Int("n", 1))
	b.ReportAllocs()
	for b.Loop() {
		p.OnEnd(s)
	}
	if err := p.Shutdown(context.Background()); err != nil {
		b.Fatal(err)
	}
}
