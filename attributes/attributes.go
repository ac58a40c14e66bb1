// Package attributes defines the attributes of spans and events, and the
// optional values of configurations.
//
// [From] converts OpenTelemetry attributes to [Attr]s. [Some] makes an optional
// value, an [Opt], from a value, and [SomeFunc] from a function that is called
// at each read.
package attributes

import (
	"fmt"

	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"go.opentelemetry.io/otel/attribute"
)

// Attr is one attribute of a span or an event. The embedded KeyValue is the
// OpenTelemetry attribute. Exact is the exact value if OpenTelemetry cannot
// hold it, such as an integer beyond 64 bits or a list of lists, and nil
// otherwise. Extension marks an attribute that is not in one-logger's grammar.
// An Attr may be copied.
type Attr = attrvalue.Attr

// From converts OpenTelemetry attributes. The result is nil if there are none.
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

	// Truncated is 1 on spans that were open when the recording ended.
	Truncated = "truncated"

	// DFTracerCategory sets the DFTracer category of a span that is not in the
	// standard table.
	DFTracerCategory = "dftracer.cat"
)

// Opt is an optional value: a value, or a function without arguments that
// returns it. The zero Opt is unset; an attribute set leaves it out. It may be
// copied and read by any number of goroutines; a function inside it must be
// safe for that too, because it is called on every [Opt.Get] and its result is
// not kept.
type Opt[T any] struct {
	value T
	fn    func() T
	set   bool
}

// Some returns an Opt that holds v. A slice or map in v is shared, not copied.
func Some[T any](v T) Opt[T] { return Opt[T]{value: v, set: true} }

// SomeFunc returns an Opt that calls fn each time it is read. A nil fn returns
// an unset Opt.
func SomeFunc[T any](fn func() T) Opt[T] { return Opt[T]{fn: fn, set: fn != nil} }

// IsSet reports whether a value or a function was given.
func (o Opt[T]) IsSet() bool { return o.set }

// IsFunc reports whether the Opt has a function.
func (o Opt[T]) IsFunc() bool { return o.fn != nil }

// Get returns the value, or the current result of the function. It returns the
// zero value of T for an unset Opt.
func (o Opt[T]) Get() T {
	if o.fn != nil {
		return o.fn()
	}
	return o.value
}

// Or returns the result of [Opt.Get], or def for an unset Opt.
func (o Opt[T]) Or(def T) T {
	if !o.set {
		return def
	}
	return o.Get()
}

// String returns a description: the value, "func()" for a function, which is
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
