// Package attributes has the attributes of spans and events, and the optional values of
// configurations.
//
// [From] turns OpenTelemetry attributes into [Attr]s. [Some] makes an optional value, an
// [Opt], of a value, and [SomeFunc] of a function that is called at each read.
package attributes

import (
	"fmt"

	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"go.opentelemetry.io/otel/attribute"
)

// Attr is one attribute of a span or an event on its way to the outputs. The embedded
// KeyValue is the OpenTelemetry attribute. Exact is the exact value if OpenTelemetry
// cannot hold it, such as an integer beyond 64 bits or a list of lists, and nil
// otherwise. Extension marks an attribute that is not in one-logger's grammar. It is a
// value: copy it freely.
type Attr = attrvalue.Attr

// From wraps OpenTelemetry attributes. The result is nil for no attributes.
func From(kvs ...attribute.KeyValue) []Attr {
	if len(kvs) == 0 {
		return nil
	}
	attrs := make([]Attr, len(kvs))
	for i := range kvs {
		attrs[i].KeyValue = kvs[i]
	}
	return attrs
}

// Keys of attributes that one-logger's grammar does not have.
const (
	Epoch = "epoch"
	Step  = "step"

	// Truncated is 1 on what was still open when the recording ended.
	Truncated = "truncated"

	// DFTracerCategory names the DFTracer category of a span that is not in
	// the standard table.
	DFTracerCategory = "dftracer.cat"
)

// Opt is an optional value: a value, or a function without arguments that gives
// it. The zero Opt is unset; an attribute set leaves it out. It may be copied
// freely and read by any number of goroutines; a function inside it must be safe
// for that too, because it is called on every [Opt.Get] and its result is never
// kept.
type Opt[T any] struct {
	value T
	fn    func() T
	set   bool
}

// Some returns an Opt that holds v. A slice or map in v is shared, not copied.
func Some[T any](v T) Opt[T] { return Opt[T]{value: v, set: true} }

// SomeFunc returns an Opt that calls fn each time it is read. A nil fn gives an unset
// one.
func SomeFunc[T any](fn func() T) Opt[T] { return Opt[T]{fn: fn, set: fn != nil} }

// IsSet reports whether a value or a function was given.
func (o Opt[T]) IsSet() bool { return o.set }

// IsFunc reports whether it is a function.
func (o Opt[T]) IsFunc() bool { return o.fn != nil }

// Get returns the value, or what the function returns now. It gives the zero
// value of T when nothing was given.
func (o Opt[T]) Get() T {
	if o.fn != nil {
		return o.fn()
	}
	return o.value
}

// Or returns what [Opt.Get] gives, or def when nothing was given.
func (o Opt[T]) Or(def T) T {
	if !o.set {
		return def
	}
	return o.Get()
}

// String describes it for people: the value, "func()" for a function, which is
// not called, or "unset".
func (o Opt[T]) String() string {
	switch {
	case !o.set:
		return "unset"
	case o.fn != nil:
		return "func()"
	}
	return fmt.Sprint(o.value)
}
