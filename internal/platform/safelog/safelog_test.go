package safelog_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"github.com/trainspan/trainspan/internal/platform/safelog"
)

// broken is a handler whose methods panic.
type broken struct{}

func (broken) Enabled(context.Context, slog.Level) bool  { panic("enabled") }
func (broken) Handle(context.Context, slog.Record) error { panic("handle") }
func (broken) WithAttrs([]slog.Attr) slog.Handler        { panic("attrs") }
func (broken) WithGroup(string) slog.Handler             { panic("group") }

func TestPanicsAreContained(t *testing.T) {
	l := safelog.New(slog.New(broken{}))
	l.With("a", 1).WithGroup("g").Warn("message")
	if err := l.Handler().Handle(t.Context(), slog.Record{}); err != nil {
		t.Errorf("Handle: %v, want no error", err)
	}
	if again := safelog.New(l); again != l {
		t.Error("New wraps a wrapped logger again")
	}
}

func TestAtLeast(t *testing.T) {
	var text bytes.Buffer
	l := slog.New(safelog.AtLeast(slog.NewTextHandler(&text, nil), slog.LevelWarn)).With("a", 1).WithGroup("g")
	l.Info("hidden")
	l.Warn("shown")
	if got := text.String(); bytes.Count(text.Bytes(), []byte("\n")) != 1 || !bytes.Contains(text.Bytes(), []byte("shown")) {
		t.Errorf("log %q, want one line with %q", got, "shown")
	}
}
