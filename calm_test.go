package trainspan_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/trainspan/trainspan"
	"github.com/trainspan/trainspan/config"
)

// brokenHandler panics for every message.
type brokenHandler struct{ slog.Handler }

func (brokenHandler) Enabled(context.Context, slog.Level) bool  { return true }
func (brokenHandler) Handle(context.Context, slog.Record) error { panic("log") }

// A log handler that panics ends neither the training nor a goroutine of telemetry.
func TestLogHandlerThatPanics(t *testing.T) {
	const full = "/dev/full"
	if _, err := os.Stat(full); err != nil {
		t.Skipf("no %s here", full)
	}
	absent := httptest.NewServer(http.NotFoundHandler()) // does not accept logs and metrics, which is logged
	defer absent.Close()
	var cfg config.Config
	cfg.ApplicationName = "a job"
	cfg.Outputs.File.Path = full
	cfg.Outputs.OTLP.Endpoint = absent.URL
	tel, err := trainspan.Start(t.Context(), trainspan.WithConfig(cfg), trainspan.WithLogger(slog.New(brokenHandler{})))
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		_, s := tel.StartSpan(t.Context(), "span")
		s.AddEvent("event")
		s.End()
	}
	if tel.ForceFlush(t.Context()) == nil {
		t.Error("ForceFlush of a full disk: no error, want one")
	}
	if tel.Shutdown(context.WithoutCancel(t.Context())) == nil {
		t.Error("Shutdown of a full disk: no error, want one")
	}
}
