package ai_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/trainspan/trainspan/ai"
)

type namedFunc func(int) int

func TestWrap(t *testing.T) {
	boom := errors.New("boom")
	calls := 0
	got := record(t, func(ctx context.Context, tree *ai.Tree) {
		n := tree.Compute.Forward
		inside := func(ctx context.Context) { tree.Data.Item.Start(ctx).End() }
		check := func(name string, ok bool) {
			t.Helper()
			calls++
			if !ok {
				t.Errorf("%s: the wrapped function returned another result", name)
			}
		}
		ran := false
		ai.Wrap(n, func() { ran = true })()
		check("plain", ran)
		check("error", ai.Wrap(n, func() error { return boom })() == boom)
		ai.Wrap(n, func(ctx context.Context) { inside(ctx) })(ctx)
		check("context", true)
		check("context, error", ai.Wrap(n, func(ctx context.Context) error { inside(ctx); return boom })(ctx) == boom)
		check("argument, result", ai.Wrap(n, func(x int) string { return fmt.Sprint(x) })(7) == "7")
		check("named type", ai.Wrap(n, namedFunc(func(x int) int { return x + 1 }))(1) == 2)
		check("variadic", ai.Wrap(n, func(xs ...int) int { return len(xs) })(1, 2, 3) == 3)
		r, err := ai.Wrap(n, func(ctx context.Context, a, b int) (int, error) { inside(ctx); return a * b, boom })(ctx, 6, 7)
		check("all", r == 42 && err == boom)
		r, err = ai.WrapCall(n, func(ctx context.Context, a int) (int, error) { inside(ctx); return a, nil })(ctx, 5)
		check("typed", r == 5 && err == nil)
		_, err = ai.WrapCall(n, func(context.Context, int) (int, error) { return 0, boom })(ctx, 5)
		check("typed error", err == boom)
		panics(t, func() { ai.Wrap(n, func() { panic(1) })() })
		panics(t, func() { ai.Wrap(n, func(int) { panic(1) })(0) })
		panics(t, func() { _, _ = ai.WrapCall(n, func(context.Context, int) (int, error) { panic(1) })(ctx, 0) })
		calls += 3

		var none func()
		if ai.Wrap(n, none) != nil || ai.Wrap(n, 3) != 3 || ai.Wrap[any](n, nil) != nil {
			t.Error("a value that is not a function was changed")
		}
		tree.Compute.Disable() // it takes effect when the function is called
		check("off", ai.Wrap(n, func(x int) int { return x })(3) == 3)
		r, _ = ai.WrapCall(n, func(_ context.Context, x int) (int, error) { return x, nil })(ctx, 4)
		check("off", r == 4)
		calls -= 2
	})
	var wraps, failed, below int
	for _, ev := range got {
		switch {
		case ev.Name == "item" && ev.Level == 2:
			below++
		case ev.Name == "forward":
			wraps++
			if arg(ev, "otel.status_code") == "ERROR" {
				failed++
			}
		}
	}
	if wraps != calls || failed != 7 || below != 4 {
		t.Errorf("%d events, want %d as calls; %d failed, want 7; %d below, want 4", wraps, calls, failed, below)
	}
}

func panics(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("got no panic, want the panic of the function")
		}
	}()
	f()
}
