package settings

import (
	"context"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// The variables by which whoever starts a job names the span that it belongs to,
// written as the headers of W3C Trace Context are.
const (
	ParentVariable = "TRACEPARENT"
	stateVariable  = "TRACESTATE"
)

// Parent returns the span that the variable TRACEPARENT names, through lookup such as
// os.LookupEnv. It is invalid if the variable is not set or is empty; one that cannot be
// read is an error.
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
