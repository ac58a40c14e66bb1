// Package safelog wraps a program's log handler for use by telemetry: a panic of the handler
// only loses a message.
package safelog

import (
	"context"
	"log/slog"
)

// New returns a logger with the handler of l whose panics only lose a message. A nil l means
// slog.Default.
func New(l *slog.Logger) *slog.Logger {
	if l == nil {
		l = slog.Default()
	}
	if _, ok := l.Handler().(handler); ok {
		return l
	}
	return slog.New(handler{l.Handler()})
}

type handler struct{ slog.Handler }

// Enabled implements slog.Handler.
func (h handler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	defer func() { _ = recover() }()
	return h.Handler.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	defer func() { _ = recover() }()
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.derived(func() slog.Handler { return h.Handler.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	return h.derived(func() slog.Handler { return h.Handler.WithGroup(name) })
}

func (h handler) derived(derive func() slog.Handler) (out slog.Handler) {
	defer func() {
		if recover() != nil {
			out = h
		}
	}()
	return handler{derive()}
}

// AtLeast returns h without the messages below a level.
func AtLeast(h slog.Handler, level slog.Level) slog.Handler { return &atLeast{h, level} }

type atLeast struct {
	slog.Handler
	level slog.Level
}

// Enabled implements slog.Handler.
func (h *atLeast) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= h.level && h.Handler.Enabled(ctx, l)
}

// WithAttrs implements slog.Handler.
func (h *atLeast) WithAttrs(attrs []slog.Attr) slog.Handler {
	return AtLeast(h.Handler.WithAttrs(attrs), h.level)
}

// WithGroup implements slog.Handler.
func (h *atLeast) WithGroup(name string) slog.Handler {
	return AtLeast(h.Handler.WithGroup(name), h.level)
}
