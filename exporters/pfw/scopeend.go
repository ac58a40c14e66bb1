package pfw

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/spans"
)

var _ spans.Scope = (*scope)(nil)

// Context implements spans.Scope.
func (s *scope) Context() context.Context { return s }

// Set implements spans.Scope.
func (s *scope) Set(attrs []attribute.KeyValue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.extra == nil && len(attrs) == 1 {
		s.extra = attrs[:1:1]
		return
	}
	for _, kv := range attrs {
		s.extra = upsert(s.extra, kv)
	}
}

// End implements spans.Scope.
func (s *scope) End(err error) {
	if !s.finish(&s.kind.p.beginning) {
		return
	}
	s.write(s.kind.p.clock.now(), err, false)
}

func (s *scope) write(end int64, err error, truncated bool) {
	p := s.kind.p
	end, level, parent := s.settle(end, p.latest)
	p.open.removeScope(s)
	tid := p.roots.end(&s.open, end)

	var stack [stackArgs]dftracer.Arg
	args := s.appendArgs(stack[:0])
	if err != nil {
		args = appendStatus(args, sdktrace.Status{Code: codes.Error, Description: errorText(err)})
	}
	if truncated {
		args = append(args, dftracer.Int(argTruncated, 1))
	}
	p.w.WriteComplete(&s.kind.key, dftracer.Span{
		ID: s.id, TID: tid, TS: s.start, Dur: end - s.start, Level: level, Parent: parent,
	}, args...)
}

// appendArgs adds the arguments of the scope; those of this one use win over
// those of its kind.
func (s *scope) appendArgs(dst []dftracer.Arg) []dftracer.Arg {
	s.mu.Lock()
	extra := s.extra
	s.mu.Unlock()
	if s.args == nil && extra == nil {
		dst = appendProgress(dst, s.epoch, s.step, nil)
		if s.count > 0 {
			dst = append(dst, dftracer.Int(argCount, s.count))
		}
		return dst
	}
	var shared []attribute.KeyValue
	if s.args != nil {
		shared = s.args.Attrs
	}
	if s.epoch >= 0 && !has(extra, attributes.Epoch) && !has(shared, attributes.Epoch) {
		dst = append(dst, dftracer.Int(attributes.Epoch, s.epoch))
	}
	if s.step >= 0 && !has(extra, attributes.Step) && !has(shared, attributes.Step) {
		dst = append(dst, dftracer.Int(attributes.Step, s.step))
	}
	if s.count > 0 && !has(extra, argCount) {
		dst = append(dst, dftracer.Int(argCount, s.count))
	}
	for i := range shared {
		kv := &shared[i]
		if !has(extra, kv.Key) && !(s.count > 0 && kv.Key == argCount) {
			dst = appendArg(dst, kv)
		}
	}
	for i := range extra {
		dst = appendArg(dst, &extra[i])
	}
	return dst
}

// upsert sets an attribute in a copy if it has to.
func upsert(attrs []attribute.KeyValue, kv attribute.KeyValue) []attribute.KeyValue {
	for i := range attrs {
		if attrs[i].Key == kv.Key {
			attrs = append([]attribute.KeyValue(nil), attrs...)
			attrs[i] = kv
			return attrs
		}
	}
	return append(attrs, kv)
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
