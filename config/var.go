package config

import "github.com/trainspan/trainspan/attributes"

// Var is a setting that is either a value or a function giving it: the optional
// value of the whole project. The zero Var is unset.
type Var[T any] = attributes.Opt[T]

// Value returns a Var holding v. A slice or map in v is shared, not copied.
func Value[T any](v T) Var[T] { return attributes.Some(v) }

// Func returns a Var that calls fn each time it is read. A nil fn gives an
// unset Var.
func Func[T any](fn func() T) Var[T] { return attributes.SomeFunc(fn) }
