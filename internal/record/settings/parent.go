package settings

import (
	"context"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// The environment variables that name the parent span of a job. The values have the
// format of the W3C Trace Context headers.
const (
	ParentVariable = "TRACEPARENT"
	stateVariable  = "TRACESTATE"
)

// Parent returns the span that the variable TRACEPARENT names. lookup is a function like
// os.LookupEnv. The span is invalid if the variable is unset or empty. An invalid value
// is an error.
func Parent(lookup func(string) (string, bool)) (trace.SpanContext, error) {
	text, _ := lookup(ParentVariable)
	if text = strings.TrimSpace(text); text == "" {
		return trace.SpanContext{}, nil
	}
	state, _ := lookup(stateVariable)
	headers := propagation.MapCarrier{"traceparent": text, "tracestate": strings.TrimSpace(state)}
	sc := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), headers))
	if !sc.IsValid() {
		return sc, fmt.Errorf("%s is ignored: %.80q is not a valid W3C traceparent", ParentVariable, text)
	}
	return sc, nil
}
