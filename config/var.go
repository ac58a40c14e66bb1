package config

import "fmt"

// Var is a setting that is either a value or a zero-argument function giving
// it. The zero Var is unset. A Var may be copied freely and read by any number
// of goroutines; a function inside it must be safe for that too, because it is
// called on every [Var.Get] and its result is never kept.
type Var[T any] struct {
	value T
	fn    func() T
	set   bool
}

// Value returns a Var holding v. A slice or map in v is shared, not copied.
func Value[T any](v T) Var[T] { return Var[T]{value: v, set: true} }

// Func returns a Var that calls fn each time it is read. A nil fn gives an
// unset Var.
func Func[T any](fn func() T) Var[T] { return Var[T]{fn: fn, set: fn != nil} }

// IsSet reports whether a value or a function was given.
func (v Var[T]) IsSet() bool { return v.set }

// IsFunc reports whether the setting is a function.
func (v Var[T]) IsFunc() bool { return v.fn != nil }

// Get returns the value, or what the function returns now. It returns the zero
// value of T when nothing was given.
func (v Var[T]) Get() T {
	if v.fn != nil {
		return v.fn()
	}
	return v.value
}

// Or returns what [Var.Get] returns, or def when nothing was given.
func (v Var[T]) Or(def T) T {
	if !v.set {
		return def
	}
	return v.Get()
}

// String describes the setting for people: the value, "func()" for a function,
// which is not called, or "unset".
func (v Var[T]) String() string {
	switch {
	case !v.set:
		return "unset"
	case v.fn != nil:
		return "func()"
	}
	return fmt.Sprint(v.value)
}
