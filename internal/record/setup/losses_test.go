package setup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/record/setup"
	"github.com/trainspan/trainspan/telemetry"
)

// lostOf returns the sum of the losses in a JSON-lines file, and of the arguments of the
// end record of a trace that have the given prefix.
func lostOf(t *testing.T, file, trace, prefix string) (inFile, inTrace int64) {
	t.Helper()
	for _, line := range lines(t, file) {
		var r struct {
			Error struct{ Attributes map[string]any } `json:"error"`
		}
		must(t, json.Unmarshal([]byte(line), &r))
		if n, ok := r.Error.Attributes["lost_records"].(float64); ok {
			inFile += int64(n)
		}
	}
	for _, line := range lines(t, trace) {
		var e struct {
			Name string
			Args map[string]any
		}
		if json.Unmarshal([]byte(line), &e) != nil || e.Name != "end" {
			continue
		}
		for key, v := range e.Args {
			if n, ok := v.(float64); ok && strings.HasPrefix(key, prefix) {
				inTrace += int64(n)
			}
		}
	}
	return inFile, inTrace
}

// TestABackendThatIsNotThere checks that the losses of an unreachable backend are in
// both files, in the log and in the counts, with the same numbers, however the job ends.
// The export gives up by itself: the deadline is an hour.
func TestABackendThatIsNotThere(t *testing.T) {
	for _, byScope := range []bool{false, true} {
		forBoth(t, func(t *testing.T, protocol string) {
			dir, log := t.TempDir(), &bytes.Buffer{}
			cfg := (&collector{protocol: protocol, url: "http://" + closedPort(t)}).job()
			cfg.Outputs.File = config.File{Path: filepath.Join(dir, "t.jsonl")}
			cfg.Outputs.Trace = config.Trace{Path: filepath.Join(dir, "t.pfw.gz")}
			logger := slog.New(slog.NewJSONHandler(log, nil))
			b, outputs, err := setup.NewBuilder(t.Context(), cfg, quiet())
			must(t, err)
			tel, err := b.WithLogger(logger).WithShutdownTimeout(time.Hour).ConfigureProvider(t.Context())
			must(t, err)
			cb := callbacks.New(tel)
			ctx, err := cb.OnAppStart(t.Context())
			must(t, err)
			_, err = cb.OnTrainStart(ctx, callbacks.TrainStart{})
			must(t, err)
			if byScope {
				telemetry.FromContext(ctx).End()
				err = tel.Shutdown(context.Background())
			} else {
				must(t, cb.OnAppEnd(ctx)) // losses of telemetry do not change its result
				err = tel.Shutdown(context.Background())
			}
			if err == nil {
				t.Error("all data was lost without an error")
			}

			s := tel.Stats()
			if s.EndedSpans < 2 || s.DroppedSpans != s.EndedSpans || s.LogRecords < 2 || s.DroppedLogRecords != s.LogRecords || s.LostMetricExports == 0 {
				t.Errorf("stats %+v, want every span and log record dropped, and lost metric exports", s)
			}
			want := s.DroppedSpans + s.DroppedLogRecords
			inFile, inTrace := lostOf(t, outputs.Paths()["file"], outputs.Paths()["trace"], "otlp_dropped_")
			if inFile != want || inTrace != want+s.LostMetricExports {
				t.Errorf("%d spans and log records were lost; the file has %d, the trace %d with %d exports of metrics; want the same numbers", want, inFile, inTrace, s.LostMetricExports)
			}
			if n := strings.Count(log.String(), "could not deliver all data"); n != 1 {
				t.Errorf("%d lines with the sums, want 1: %s", n, log)
			}
		})
	}
}

// TestABackendForSpansOnly checks that a receiver that accepts only spans causes no
// warnings.
func TestABackendForSpansOnly(t *testing.T) {
	there, dir, log := newCollector(t, config.OTLPHTTP), t.TempDir(), &bytes.Buffer{}
	cfg := there.job()
	cfg.Outputs.OTLP.LogsEndpoint, cfg.Outputs.OTLP.MetricsEndpoint = there.url+"/v1/nothing", there.url+"/v1/nothing"
	cfg.Outputs.File = config.File{Path: filepath.Join(dir, "t.jsonl")}
	cfg.Outputs.Trace = config.Trace{Path: filepath.Join(dir, "t.pfw.gz")}
	b, outputs, err := setup.NewBuilder(t.Context(), cfg, quiet())
	must(t, err)
	tel, err := b.WithLogger(slog.New(slog.NewJSONHandler(log, nil))).ConfigureProvider(t.Context())
	must(t, err)
	cb := callbacks.New(tel)
	_, err = cb.OnAppStart(t.Context())
	must(t, err)
	must(t, cb.OnAppEnd(t.Context()))
	s := tel.Stats()
	if s.DroppedSpans != 0 || s.DroppedLogRecords == 0 || s.DroppedLogRecords != s.LogDrops["refused by the backend"] || s.LostMetricExports == 0 {
		t.Errorf("stats %+v, want no dropped span, log records refused by the backend, lost metric exports", s)
	}
	inFile, inTrace := lostOf(t, outputs.Paths()["file"], outputs.Paths()["trace"], "otlp_dropped_logs")
	if inFile != 0 || inTrace != s.DroppedLogRecords || log.Len() != 0 {
		t.Errorf("the file has %d losses, the trace %d, the log %s; want 0, all log records, nothing", inFile, inTrace, log)
	}
}
