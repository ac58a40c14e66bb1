package ai

import (
	"context"
	"errors"

	"github.com/trainspan/trainspan/internal/record/dispatch"
	"go.opentelemetry.io/otel/attribute"
)

// errCut is the error of a scope whose function did not return.
var errCut = errors.New("panicked or ended its goroutine")

// Scope is a running scope of a node. The zero Scope, which a disabled node returns, does
// nothing. A Scope may be copied, ended on another goroutine, and ended twice. It is safe
// for concurrent use.
type Scope struct{ inner dispatch.Scope }

// End ends the scope.
func (s Scope) End() {
	if s.inner != nil {
		s.inner.End()
	}
}

// EndErr ends the scope and records the error that err points to when it is
// called, for defer in a function with a named result:
//
//	scope := ai.Compute.Forward.Start(ctx)
//	defer scope.EndErr(&err)
//
// Nothing is recorded for a nil pointer or a nil error.
func (s Scope) EndErr(err *error) {
	if err == nil {
		s.End()
		return
	}
	s.end(*err)
}

func (s Scope) end(err error) {
	s.Fail(err)
	s.End()
}

// Fail records an error on the scope and does not end it. A nil err is ignored;
// of several errors the last one is kept.
func (s Scope) Fail(err error) {
	if s.inner != nil && err != nil {
		s.inner.Fail(err)
	}
}

// Set sets arguments of this scope. They take precedence over the arguments of
// its node.
func (s Scope) Set(attrs ...attribute.KeyValue) {
	if s.inner != nil && len(attrs) > 0 {
		s.inner.Set(append([]attribute.KeyValue(nil), attrs...))
	}
}

// Context returns the context with the scope. It is nil for the zero Scope;
// then use the context you have, as [Node.StartContext] does.
func (s Scope) Context() context.Context {
	if s.inner == nil {
		return nil
	}
	return s.inner.Context()
}
