package pfw

import (
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/direct"
)

// spanEntry is an open span.
type spanEntry struct {
	open
	epoch, step int64 // -1: unknown
	spanID      trace.SpanID
	span        sdktrace.ReadWriteSpan // nil once it is written
}

// scopeEntry is an open scope.
type scopeEntry struct {
	open
	key        *dftracer.Key
	args       *direct.LiveArgs
	count      int64
	outer      trace.SpanID // the innermost span of the context
	prev, next *scopeEntry  // in the registry
	extra      atomic.Pointer[[]attribute.KeyValue]
	over       atomic.Int32 // arguments that were left out of extra
}
