package ai

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"

	"github.com/trainspan/trainspan/spans"
)

// errCut is the error of a scope whose function did not return.
var errCut = errors.New("panicked or ended its goroutine")

// Scope is a running scope of a node. The zero Scope, that of a disabled node,
// does nothing. It may be copied, ended on another goroutine, and ended twice.
type Scope struct{ inner spans.Scope }

// End ends the scope.
func (s Scope) End() {
	if s.inner != nil {
		s.inner.End(nil)
	}
}

// EndErr ends the scope; an err that is not nil is noted on it.
func (s Scope) EndErr(err error) {
	if s.inner != nil {
		s.inner.End(err)
	}
}

// Set gives the scope arguments. They are those of this one use and win over
// those of its node.
func (s Scope) Set(attrs ...attribute.KeyValue) {
	if s.inner != nil && len(attrs) > 0 {
		s.inner.Set(append([]attribute.KeyValue(nil), attrs...))
	}
}

// Recording tells whether the scope records anything.
func (s Scope) Recording() bool { return s.inner != nil }

// Context is the context for what nests below the scope. It is nil for the
// zero Scope, whose caller goes on with the context it has; StartContext saves
// the distinction.
func (s Scope) Context() context.Context {
	if s.inner == nil {
		return nil
	}
	return s.inner.Context()
}
