package python_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/otlp"
	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/testkit/growth"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
	"github.com/trainspan/trainspan/internal/testkit/ringtest"
	"github.com/trainspan/trainspan/internal/testkit/until"
)

// TestSendsOfAKilledProcess checks that children of a long span are sent while
// it is open, and that the open spans of a killed process are sent as
// truncated.
func TestSendsOfAKilledProcess(t *testing.T) {
	b := newBackend(t)
	rings := t.TempDir()
	d, err := pyring.New(pyring.Options{
		Dir: rings, Out: t.TempDir(), Attempt: -1, Config: b.config(config.Export{Mode: config.ExportAll}),
		OTLP: func(c *otlp.Config) { c.BatchDelay = time.Millisecond },
		Log:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Skip(err)
	}
	cmd := pyrun.Command(t, rings, `
import os, sys
from trainspan.dftracer import ai, dft_fn
with ai.pipeline.train:
    with dft_fn("app", "outer"):
        for i in range(100):
            with ai.compute.forward:
                pass
        sys.stdin.readline()
        with ai.compute.backward:
            pass
        ai.comm.all_reduce.start()
        os.kill(os.getpid(), 9)
`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until.True(t, "what has ended inside of an open span is sent", func() bool { return len(b.all()) == 100 })
	if _, err := io.WriteString(in, "\n"); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it is killed
	if err := d.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	compare(t, b.paths(t), map[string]int{
		"training_loop": 1, "training_loop > app.outer": 1, "training_loop > app.outer > model_forward": 100,
		"training_loop > app.outer > model_backward": 1, "training_loop > app.outer > comm.all_reduce": 1,
	})
	for _, s := range b.all() {
		open := slices.Contains([]string{"training_loop", "app.outer", "comm.all_reduce"}, s.GetName())
		if (s.attrs["truncated"] == "1") != open {
			t.Errorf("%s has %v, want truncated 1: %v", s.GetName(), s.attrs, open)
		}
	}
}

// TestPrometheus checks that a Prometheus server can read the metrics of a
// program with callbacks while it runs. A second process of the same local rank
// finds the port in use: it logs this and continues.
func TestPrometheus(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var log lockedLog
	rings := t.TempDir()
	d, err := pyring.New(pyring.Options{
		Dir: rings, Out: t.TempDir(), Attempt: -1, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Config: func(code config.Config) (config.Config, error) {
			code.Outputs.Prometheus.Address = address
			return code, nil
		},
	})
	if err != nil {
		t.Skip(err)
	}
	page := func() string {
		resp, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			return ""
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return string(text)
	}
	for i := range 2 {
		cmd := pyrun.Command(t, rings, `
import sys
from trainspan.onelogger import *
from trainspan.onelogger import OneLoggerConfig, TrainingTelemetryConfig, TrainingTelemetryProvider
TrainingTelemetryProvider.instance().with_base_config(OneLoggerConfig(
    application_name="job", session_tag_or_fn="tag", world_size_or_fn=1,
    telemetry_config=TrainingTelemetryConfig(perf_tag_or_fn="p", global_batch_size_or_fn=8, log_every_n_train_iterations=1),
)).configure_provider()
on_app_start()
on_train_start(train_iterations_start=0, train_iterations_target_or_fn=10)
for _ in range(3):
    with training_iteration():
        pass
sys.stdin.readline()
on_train_end()
on_app_end()
`)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = in.Close()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		}()
		if i == 0 {
			until.True(t, "the metrics have the iterations", func() bool {
				text := page()
				return strings.Contains(text, "training_iterations_total{") && strings.Contains(text, `service_name="job"`) && strings.Contains(text, `training_session_tag="tag"`)
			})
		} else {
			until.True(t, "the second process is told of", func() bool { return strings.Contains(log.String(), "cannot open an output for a Python process") })
		}
	}
	until.True(t, "the callbacks of both are replayed", func() bool { return d.Stats().Calls == 2*9 })
	if err := d.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if st := d.Stats(); len(st.Files) != 4 || strings.Count(log.String(), "cannot open an output") != 1 || !strings.Contains(log.String(), "outputs.prometheus.address") {
		t.Errorf("stats %+v, want 4 files and one failed output, outputs.prometheus.address; the log is %s", st, log.String())
	}
	if text := page(); text != "" {
		t.Errorf("the port is still open: %s, want \"\"", text)
	}
}

// TestSendsWhatWaitsTooLong checks that the spans that wait for a parent that
// never arrives are limited in number, and are sent anyway.
func TestSendsWhatWaitsTooLong(t *testing.T) {
	const n = 2 * ringtest.Slots
	m := ringtest.New(t, 2)
	for i := range n {
		m.Put(i, ringtest.Slot{Start: ringtest.At(i), End: ringtest.At(i) + 500, Depth: 3, Word: 1})
	}
	b := newBackend(t)
	var log lockedLog
	st, err := pyring.Import(context.Background(), []string{m.Write()}, pyring.Options{
		Out: t.TempDir(), Attempt: -1, Config: b.config(config.Export{Mode: config.ExportAll}), Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if st.Delivery.Sent != n || int64(len(b.all())) != n || strings.Count(log.String(), "wait for their parents") != 1 {
		t.Errorf("stats %+v, want %d spans sent, and one line about waiting for parents; the log is %q", st, n, log.String())
	}
	growth.Allocated(t, 500, func(n int) {
		m := ringtest.New(t, (n+ringtest.Slots-1)/ringtest.Slots)
		for i := range n {
			m.Put(i, ringtest.Slot{Start: ringtest.At(i), End: ringtest.At(i) + 500, Depth: uint32(1 + i%1024), Word: 1})
		}
		if _, err := pyring.Import(context.Background(), []string{m.Write()}, pyring.Options{
			Out: t.TempDir(), Attempt: -1, Config: b.config(config.Export{Mode: config.ExportAll}), Log: slog.New(slog.DiscardHandler),
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// TestSendsOfARankThatIsLearned checks that if the rank becomes known only
// after the first spans were sent, later spans have that rank and nest below
// the open spans.
func TestSendsOfARankThatIsLearned(t *testing.T) {
	b := newBackend(t)
	drained(t, pyring.Options{Config: b.config(config.Export{})}, nil, `
from trainspan import _ring
from trainspan.dftracer import ai
with ai.pipeline.train:
    with ai.checkpoint.restart:
        pass
    _ring.meta("rank", 3)
    _ring.meta("world_size", 4)
    with ai.checkpoint.capture:
        pass
`)
	compare(t, b.paths(t), map[string]int{"training_loop": 1, "training_loop > checkpoint_load": 1, "training_loop > checkpoint_save_sync": 1})
	for _, s := range b.all() {
		if s.GetName() == "checkpoint_save_sync" && (s.resource["training.rank"] != "3" || s.resource["training.world_size"] != "4") {
			t.Errorf("%s has the resource %v, want rank 3 of 4", s.GetName(), s.resource)
		}
	}
}

// TestSendsAfterTheEnd checks that spans after the end of the application are
// sent too.
func TestSendsAfterTheEnd(t *testing.T) {
	b := newBackend(t)
	text, err := os.ReadFile(filepath.Join("testdata", "one_logger.py"))
	if err != nil {
		t.Fatal(err)
	}
	st := drained(t, pyring.Options{Config: b.config(config.Export{})}, nil, string(text)+`
from trainspan.dftracer import ai
with ai.pipeline.evaluate:
    with ai.checkpoint.restart:
        pass
`)
	got := b.paths(t)
	if got["validation_loop"] != 1 || got["validation_loop > checkpoint_load"] != 1 || st.Delivery.Sent != 12 {
		t.Errorf("spans sent: %v; %+v, want validation_loop and its checkpoint_load once, 12 in all", got, st)
	}
}

// TestSendsSegments checks that a long loop is sent in segments while the
// process runs, and while it waits.
func TestSendsSegments(t *testing.T) {
	b, rings := newBackend(t), t.TempDir()
	d, err := pyring.New(pyring.Options{
		Dir: rings, Out: t.TempDir(), Attempt: -1, Log: slog.New(slog.DiscardHandler),
		Config: func(code config.Config) (config.Config, error) {
			code.Outputs.OTLP = config.OTLP{Endpoint: b.URL, BatchDelay: time.Millisecond, Segment: 200 * time.Millisecond}
			return code, nil
		},
	})
	if err != nil {
		t.Skip(err)
	}
	cmd := pyrun.Command(t, rings, `
import sys
from trainspan.dftracer import ai
with ai.pipeline.train:
    with ai.checkpoint.restart:
        pass
    sys.stdin.readline()
    with ai.checkpoint.capture:
        pass
`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until.True(t, "two segments of an open loop", func() bool {
		n := 0
		for _, s := range b.all() {
			if s.GetName() == "training_loop" && s.attrs["segment.final"] == "" {
				n++
			}
		}
		return n >= 2
	})
	if err := errors.Join(in.Close(), cmd.Wait(), d.Close(context.Background())); err != nil {
		t.Fatal(err)
	}
	segments, final := make(map[string]bool), 0
	for _, s := range b.all() {
		if s.GetName() == "training_loop" {
			segments[string(s.GetSpanId())] = true
			if s.attrs["segment.final"] == "true" {
				final++
			}
		}
	}
	for _, s := range b.all() {
		if s.GetName() != "training_loop" && !segments[string(s.GetParentSpanId())] {
			t.Errorf("parent of %s is no segment of the loop", s.GetName())
		}
	}
	if final != 1 || len(segments) < 3 {
		t.Errorf("%d segments, %d of them final; want 3 or more, 1", len(segments), final)
	}
}
