package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/trainspan/trainspan/spans"
)

// record has the fields of a line of the JSON-lines file that the tests use.
type record struct {
	Type   string
	ID     string
	SpanID string `json:"span_id"`
	Name   string
	Event  struct {
		Name       string
		Attributes map[string]any
	}
}

func records(t *testing.T, path string) []record {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []record
	for i, line := range bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")) {
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("line %d: %v: %s", i+1, err, line)
		}
		all = append(all, r)
	}
	return all
}

// events returns the events with a name.
func events(all []record, name string) []record {
	return slices.DeleteFunc(slices.Clone(all), func(r record) bool { return r.Event.Name != name })
}

// checkPairs checks that every started span stops once, after its start.
func checkPairs(t *testing.T, all []record) map[string]int {
	t.Helper()
	open, counts := map[string]string{}, map[string]int{}
	for _, r := range all {
		switch r.Type {
		case "start":
			open[r.ID] = r.Name
			counts[r.Name]++
		case "stop":
			if _, ok := open[r.ID]; !ok {
				t.Errorf("%s %s stops before it starts", r.Name, r.ID)
			}
			delete(open, r.ID)
		case "event", "application_error":
			if _, ok := open[r.SpanID]; !ok {
				t.Errorf("%s belongs to span %s, which is not open", r.Event.Name, r.SpanID)
			}
		}
	}
	for id, name := range open {
		t.Errorf("%s %s never stops", name, id)
	}
	return counts
}

// TestJobIsRecorded runs a job with every phase: it is stopped, resumed,
// validated, saved and tested.
func TestJobIsRecorded(t *testing.T) {
	text := sourceTree(t)
	for _, async := range []bool{false, true} {
		t.Run(fmt.Sprintf("async=%v", async), func(t *testing.T) {
			more := []string{"-checkpoint-every", "15"}
			save, saved := spans.CheckpointSaveSync, "sync"
			if async {
				more = append(more, "-async-checkpoint")
				save, saved = spans.CheckpointSaveAsync, "async"
			}
			out := t.TempDir()
			t.Setenv("TRAINSPAN_LOG_EVERY_N_TRAIN_ITERATIONS", "10")
			runOK(t, nil, small(out, text, append(more, "-epochs", "1")...)...)
			first := len(records(t, filepath.Join(out, "telemetry-0.jsonl")))
			runOK(t, nil, small(out, text, append(more, "-resume", "-epochs", "3")...)...)

			all := records(t, filepath.Join(out, "telemetry-0.jsonl"))[first:]
			counts := checkPairs(t, all)
			want := map[string]int{
				spans.Application: 1, spans.DistributedInit: 1, spans.DataLoaderInit: 1, spans.ModelInit: 1,
				spans.OptimizerInit: 1, spans.CheckpointLoad: 1, spans.TrainingLoop: 1, spans.Epoch: 2,
				spans.ValidationLoop: 2, spans.TestingLoop: 1, save: 3, // at steps 30, 45 and 60
			}
			if async {
				want[spans.CheckpointSaveFinalization] = 3
			}
			for name, n := range want {
				if counts[name] != n {
					t.Errorf("%d spans %s, want %d", counts[name], name, n)
				}
			}
			updates := events(all, spans.EventTrainingMetricsUpdate)
			if len(updates) != 4 {
				t.Fatalf("%d metrics updates, want 4", len(updates))
			}
			last := updates[3].Event.Attributes
			for key, want := range map[string]float64{
				"current_iteration": 59, "train_iterations_start": 20, "num_train_samples": 40 * 16, "train_tokens": 40 * 16,
			} {
				if last[key] != want {
					t.Errorf("the last update has %s %v, want %v", key, last[key], want)
				}
			}
			if loss, _ := last["latest_loss"].(float64); !(loss > 0) {
				t.Errorf("last update %v, want a loss above 0", last)
			}
			successes := events(all, spans.EventSaveCheckpointSuccess)
			if len(successes) != 3 {
				t.Fatalf("%d saves succeeded, want 3", len(successes))
			}
			final := successes[2].Event.Attributes
			if final["checkpoint_strategy"] != saved || final["current_iteration"] != 60.0 {
				t.Errorf("last save %v, want strategy %v, step 60", final, saved)
			}
			if n := len(events(all, spans.EventError)); n != 0 {
				t.Errorf("%d errors were recorded, want 0", n)
			}
		})
	}
}

// TestTelemetryChangesNothing compares the last checkpoints of a job with
// telemetry on and off with that of a loop without telemetry calls, byte for
// byte.
func TestTelemetryChangesNothing(t *testing.T) {
	text := sourceTree(t)
	plain := ready(t, text)
	for epoch := range plain.opts.epochs {
		if epoch > 0 { // the first epoch has begun
			plain.startEpoch(t.Context())
		}
		for plain.epochGoesOn() {
			loss := half(t, plain)
			if err := plain.optimizerStep(t.Context()); err != nil {
				t.Fatal(err)
			}
			plain.finishStep(loss)
		}
		plain.endEpoch()
	}
	if _, err := plain.saveSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := read(t, plain.opts.out, 40)
	for _, on := range []string{"on", "off"} {
		out := t.TempDir()
		runOK(t, nil, small(out, text, "-telemetry", on, "-async-checkpoint")...)
		if !bytes.Equal(read(t, out, 40), want) {
			t.Errorf("telemetry %s: the weights differ from those of the plain loop", on)
		}
		_, err := os.Stat(filepath.Join(out, "telemetry-0.jsonl"))
		if (err == nil) != (on == "on") {
			t.Errorf("telemetry %s: Stat of the file = %v, want it only with telemetry on", on, err)
		}
	}
}

// TestFailedSaveIsRecorded removes the checkpoints' directory.
func TestFailedSaveIsRecorded(t *testing.T) {
	text := sourceTree(t)
	for _, async := range []bool{false, true} {
		t.Run(fmt.Sprintf("async=%v", async), func(t *testing.T) {
			out := t.TempDir()
			args := small(out, text, "-validate-every", "10", "-checkpoint-every", "10")
			if async {
				args = append(args, "-async-checkpoint")
			}
			saboteur := writerFunc(func(p []byte) {
				if strings.Contains(string(p), "step 10: validation") { // directly before the first save
					if err := os.RemoveAll(filepath.Join(out, "checkpoints")); err != nil {
						t.Error(err)
					}
				}
			})
			var stderr bytes.Buffer
			if code := run(t.Context(), args, nil, saboteur, &stderr); code != 1 || !strings.Contains(stderr.String(), "no such file") {
				t.Fatalf(`exit status %d, want 1 and "no such file": %s`, code, stderr.String())
			}
			all := records(t, filepath.Join(out, "telemetry-0.jsonl"))
			checkPairs(t, all)
			if n := len(events(all, spans.EventSaveCheckpointSuccess)); n != 0 {
				t.Errorf("%d saves succeeded, want none", n)
			}
			failures := events(all, spans.EventSaveCheckpointFailure)
			if len(failures) == 0 {
				t.Fatal("no failure was recorded")
			}
			if step := failures[0].Event.Attributes["current_iteration"]; step != 10.0 {
				t.Errorf("the failure is of step %v, want 10: %v", step, failures[0])
			}
		})
	}
}

func TestFileAndEnvironmentConfigureTelemetry(t *testing.T) {
	out, elsewhere := t.TempDir(), t.TempDir()
	file := filepath.Join(elsewhere, "job.yaml")
	if err := os.WriteFile(file, []byte("session_tag: day-shift\nworld_size: 64\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TRAINSPAN_CONFIG", file)
	t.Setenv("TRAINSPAN_FILE_PATH", filepath.Join(elsewhere, "rank{rank}.jsonl"))
	t.Setenv("TRAINSPAN_SESSION_TAG", "night-shift")
	t.Setenv("DFTRACER_ENABLE", "0")
	printed := runOK(t, nil, small(out, sourceTree(t))...)
	all := records(t, filepath.Join(elsewhere, "rank0.jsonl"))
	first := events(all, spans.EventOneLoggerInitialization)
	if len(first) != 1 || first[0].Event.Attributes["session_tag"] != "night-shift" || first[0].Event.Attributes["world_size"] != 64.0 {
		t.Errorf("job has %v, want tag night-shift, world size 64", first)
	}
	if names, _ := filepath.Glob(filepath.Join(out, "*.pfw*")); len(names) != 0 || strings.Contains(printed, "category") {
		t.Errorf("traces %v, want none and no summary:\n%s", names, printed)
	}

	t.Setenv("TRAINSPAN_GLOBAL_BATCH_SIZE", "many")
	var stderr bytes.Buffer
	if code := run(t.Context(), small(t.TempDir(), sourceTree(t)), nil, &bytes.Buffer{}, &stderr); code != 1 ||
		!strings.Contains(stderr.String(), "TRAINSPAN_GLOBAL_BATCH_SIZE") {
		t.Errorf("exit status %d, want 1 and the name of the variable: %s", code, stderr.String())
	}
}

// TestSpansGoToTheEndpoint names a backend with the standard variable.
func TestSpansGoToTheEndpoint(t *testing.T) {
	var requests, size, logs, metrics atomic.Int64
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("%s: %v", r.URL, err)
		}
		switch r.URL.Path {
		case "/v1/traces":
			requests.Add(1)
			size.Add(int64(len(body)))
		case "/v1/logs":
			logs.Add(1)
		case "/v1/metrics":
			metrics.Add(1)
		default:
			t.Errorf("request for %s, want one of the OTLP paths", r.URL)
		}
		w.Header().Set("Content-Type", "application/x-protobuf") // an empty answer accepts all
	}))
	defer backend.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", backend.URL)
	printed := runOK(t, nil, small(t.TempDir(), sourceTree(t))...)
	if requests.Load() == 0 || size.Load() == 0 {
		t.Errorf("%d requests with %d bytes of spans, want some", requests.Load(), size.Load())
	}
	if logs.Load() == 0 || metrics.Load() == 0 {
		t.Errorf("%d requests with log records, %d with metrics; want some of each", logs.Load(), metrics.Load())
	}
	if sent := number(t, printed, `v1/traces, (\d+) sent, 0 lost`); sent < 10 {
		t.Errorf("%v spans were sent, want at least those of the phases", sent)
	}
}
