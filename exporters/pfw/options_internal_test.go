package pfw

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// TestDefaults checks that unset options have their defaults, and that errors and paths
// of the writer go to the logger of telemetry unless the program handles them.
func TestDefaults(t *testing.T) {
	for _, o := range []*Options{nil, {}, {MaxParents: -1, BeginAfter: -1}} {
		if got := o.withDefaults(); got.BeginAfter != DefaultBeginAfter || got.MaxParents != DefaultMaxParents {
			t.Errorf("withDefaults() of %+v: begin after %v, %d parents; want %v, %d", o, got.BeginAfter, got.MaxParents, DefaultBeginAfter, DefaultMaxParents)
		}
	}
	var log bytes.Buffer
	tel := &outputs.Telemetry{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	said := (&Options{}).traceFor(tel)
	said.OnError(errors.New("the disk is full"))
	said.OnPath("/elsewhere")
	if text := log.String(); !strings.Contains(text, "the disk is full") || !strings.Contains(text, "/elsewhere") {
		t.Errorf(`log has %q, want "the disk is full" and /elsewhere`, text)
	}
	own := 0
	mine := (&Options{Trace: &dftracer.Options{OnError: func(error) { own++ }, OnPath: func(string) { own++ }}}).traceFor(tel)
	mine.OnError(nil)
	mine.OnPath("")
	if own != 2 {
		t.Errorf("%d of 2 came to the program, want 2", own)
	}
}
