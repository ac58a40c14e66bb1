// Package spancontext is what the context that an OpenTelemetry span is started with
// says to the outputs.
package spancontext

import (
	"context"
	"fmt"
	"strings"

	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

type (
	ambientKey   struct{}
	sentKey      struct{}
	routeKey     struct{}
	telemetryKey struct{}
)

// WithAmbient says that the span stands for a scope with direct.ScopeStart.Ambient.
func WithAmbient(ctx context.Context) context.Context {
	return context.WithValue(ctx, ambientKey{}, true)
}

// IsAmbient reports whether WithAmbient marked the context.
func IsAmbient(ctx context.Context) bool { return ctx.Value(ambientKey{}) != nil }

// SentOnly says that of the outputs only those on a network get the span.
func SentOnly(ctx context.Context) context.Context { return context.WithValue(ctx, sentKey{}, true) }

// IsSentOnly reports whether SentOnly marked the context.
func IsSentOnly(ctx context.Context) bool { return ctx.Value(sentKey{}) != nil }

// Route says of selections whether they have a span, in place of its name:
// outputs may know a scope of package ai by different names. An entry for nil
// holds for all that have none.
type Route map[*outputs.Selection]bool

// WithRoute says which outputs get the span.
func WithRoute(ctx context.Context, r Route) context.Context {
	return context.WithValue(ctx, routeKey{}, r)
}

// Takes reports whether a selection has a span that is started with ctx, which may be
// nil. index is spans.Index(name) where that is known, or -1.
func Takes(ctx context.Context, s *outputs.Selection, index int, name string) bool {
	if !s.All() && ctx != nil {
		if r, ok := ctx.Value(routeKey{}).(Route); ok {
			for _, key := range [...]*outputs.Selection{s, nil} {
				if takes, ok := r[key]; ok {
					return takes
				}
			}
		}
	}
	return s.Has(index, name)
}

// WithTelemetry returns a context that carries t. The provider starts spans with it
// where a span processor is attached that is no output: a decorator of one, say, that
// was given to WithSpanProcessor.
func WithTelemetry(ctx context.Context, t *outputs.Telemetry) context.Context {
	return context.WithValue(ctx, telemetryKey{}, t)
}

// Telemetry returns what WithTelemetry put into ctx, or nil.
func Telemetry(ctx context.Context) *outputs.Telemetry {
	t, _ := ctx.Value(telemetryKey{}).(*outputs.Telemetry)
	return t
}

// The variables by which whoever starts a job names the span that it belongs to,
// written as the headers of W3C Trace Context are.
const (
	Variable      = "TRACEPARENT"
	stateVariable = "TRACESTATE"
)

// Above returns the span that the variable TRACEPARENT names, through lookup
// such as os.LookupEnv. It is invalid where the variable is not set or is empty; one
// that cannot be read is an error.
func Above(lookup func(string) (string, bool)) (trace.SpanContext, error) {
	text, _ := lookup(Variable)
	if text = strings.TrimSpace(text); text == "" {
		return trace.SpanContext{}, nil
	}
	state, _ := lookup(stateVariable)
	headers := propagation.MapCarrier{"traceparent": text, "tracestate": strings.TrimSpace(state)}
	sc := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), headers))
	if !sc.IsValid() {
		return sc, fmt.Errorf("%s is ignored: %.80q is no traceparent as W3C Trace Context has it", Variable, text)
	}
	return sc, nil
}
