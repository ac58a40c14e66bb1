package ai

import (
	"context"
	"reflect"
)

// Wrap returns a function like fn that records a scope of n around every call. fn can
// have any parameters and results. If the first parameter is a context, fn gets the
// context of the scope; otherwise the scope nests below the latest open span of a
// callback. If the last result is an error, it is recorded on the scope, and so is a
// panic. A value that is not a function, and nil, are returned unchanged.
//
// Functions of the four most common kinds, with or without a context and an error, and
// those of [WrapCall] cost no more than a scope; for others reflection takes about a
// microsecond more.
func Wrap[F any](n *Node, fn F) F {
	if n == nil {
		return fn
	}
	var wrapped any
	switch f := any(fn).(type) {
	case nil:
		return fn
	case func():
		if f == nil {
			return fn
		}
		wrapped = func() { _ = n.Do(context.Background(), func(context.Context) error { f(); return nil }) }
	case func() error:
		if f == nil {
			return fn
		}
		wrapped = func() error { return n.Do(context.Background(), func(context.Context) error { return f() }) }
	case func(context.Context):
		if f == nil {
			return fn
		}
		wrapped = func(ctx context.Context) { _ = n.Do(ctx, func(ctx context.Context) error { f(ctx); return nil }) }
	case func(context.Context) error:
		if f == nil {
			return fn
		}
		wrapped = func(ctx context.Context) error { return n.Do(ctx, f) }
	default:
		return wrapAny(n, fn)
	}
	return wrapped.(F)
}

// WrapCall is [Wrap] for functions with a context, an argument, a result and an
// error.
func WrapCall[A, R any](n *Node, fn func(context.Context, A) (R, error)) func(context.Context, A) (R, error) {
	if n == nil || fn == nil {
		return fn
	}
	return func(ctx context.Context, a A) (r R, err error) {
		ctx, s := n.StartContext(ctx)
		if s.inner == nil {
			return fn(ctx, a)
		}
		finished := false
		defer func() {
			noted := err
			if !finished {
				noted = errCut
			}
			s.end(noted)
		}()
		r, err = fn(ctx, a)
		finished = true
		return r, err
	}
}

var (
	contextType = reflect.TypeFor[context.Context]()
	errorType   = reflect.TypeFor[error]()
)

func wrapAny[F any](n *Node, fn F) F {
	v := reflect.ValueOf(fn)
	if v.Kind() != reflect.Func || v.IsNil() {
		return fn
	}
	t := v.Type()
	call := v.Call
	if t.IsVariadic() {
		call = v.CallSlice
	}
	takesContext := t.NumIn() > 0 && t.In(0) == contextType
	fails := t.NumOut() > 0 && t.Out(t.NumOut()-1) == errorType
	return reflect.MakeFunc(t, func(in []reflect.Value) (out []reflect.Value) {
		ctx := context.Background()
		if takesContext {
			if given, ok := in[0].Interface().(context.Context); ok {
				ctx = given
			}
		}
		ctx, s := n.StartContext(ctx)
		if s.inner == nil {
			return call(in)
		}
		if takesContext {
			in[0] = reflect.ValueOf(&ctx).Elem()
		}
		err := errCut
		defer s.EndErr(&err)
		out = call(in)
		err = nil
		if fails {
			err, _ = out[len(out)-1].Interface().(error)
		}
		return out
	}).Interface().(F)
}
