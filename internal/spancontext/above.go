package spancontext

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
