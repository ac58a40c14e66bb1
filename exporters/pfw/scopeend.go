package pfw

import (
	"context"

	"go.opentelemetry.io/otel/attribute"

	"github.com/trainspan/trainspan/internal/assemble"
	"github.com/trainspan/trainspan/internal/direct"
)

var _ direct.Scope = (*scope)(nil)

// Context implements direct.Scope.
func (s *scope) Context() context.Context { return s }

// Set implements direct.Scope.
func (s *scope) Set(attrs []attribute.KeyValue) { s.set(attrs) }

// Fail implements direct.Scope.
func (s *scope) Fail(err error) {
	if s.ended() {
		return
	}
	s.set([]attribute.KeyValue{
		attribute.String(assemble.ArgStatus, assemble.StatusError), attribute.String(assemble.ArgStatusDescription, errorText(err)),
	})
}

// End implements direct.Scope.
func (s *scope) End() {
	if s.finish(&s.d.beginning) {
		s.d.writeScope(&s.scopeEntry, s.d.clock.now(), false)
	}
}

// Abandon implements direct.Scope.
func (s *scope) Abandon() {
	if s.finish(&s.d.beginning) {
		s.d.writeScope(&s.scopeEntry, s.d.clock.now(), true)
	}
}

// errorText is the text of an error whose Error method may panic.
func errorText(err error) (text string) {
	defer func() {
		if recover() != nil {
			text = "error without a text"
		}
	}()
	return err.Error()
}
