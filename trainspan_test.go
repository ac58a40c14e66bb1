package trainspan_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trainspan/trainspan"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry"
	"go.opentelemetry.io/otel"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// job runs a program of one step in a new folder, and returns its files.
func job(t *testing.T, options ...trainspan.Option) (files []string) {
	t.Helper()
	t.Chdir(t.TempDir())
	return jobHere(t, options...)
}

// jobHere is job in the working directory.
func jobHere(t *testing.T, options ...trainspan.Option) (files []string) {
	t.Helper()
	dir := "."
	ctx := context.Background()
	tel, err := trainspan.Start(ctx, append([]trainspan.Option{
		trainspan.WithName("a job"), trainspan.WithLogger(slog.New(slog.DiscardHandler)),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	if telemetry.Default() != tel {
		t.Error("the provider is not the default one")
	}
	_, step := tel.Start(ctx, spans.TrainingIteration)
	step.End()
	_, own := otel.Tracer("example.com/own").Start(ctx, "own")
	own.End()
	if err := tel.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(d.Name(), ".") {
			rel, _ := filepath.Rel(dir, path)
			files = append(files, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestDirectoryOfTheRun(t *testing.T) {
	files := job(t)
	if len(files) != 2 || !strings.HasPrefix(files[0], "trainspan-runs/a job/attempt-1/") {
		t.Fatalf("files %q, want two, first one of trainspan-runs/a job/attempt-1", files)
	}
	v, err := dftracer.ValidateFile(files[1], nil)
	if err != nil || v.Err() != nil || v.Counts["pipeline/train.iteration/X"] != 1 || v.Counts["own/own/X"] != 1 {
		t.Errorf("trace: %v, %v, %v; want a valid one with 1 iteration, 1 own", v.Counts, err, v.Err())
	}
	if records, _ := os.ReadFile(files[0]); !strings.Contains(string(records), `"name":"own"`) {
		t.Errorf("records:\n%s, want \"\\\"name\\\":\\\"own\\\"\" in it", records)
	}
}

// A function of the configuration that panics is an error of Start, whenever it is called.
func TestConfigurationFunctionsThatPanic(t *testing.T) {
	for name, cfg := range map[string]config.Config{
		"session tag": {Base: config.Base{SessionTag: config.Func(func() string { panic("not yet") })}},
		"world size":  {Base: config.Base{WorldSize: config.Func(func() int { panic("not yet") })}},
		"enabled":     {Base: config.Base{EnableForCurrentRank: config.Func(func() bool { panic("not yet") })}},
		"tag":         {Base: config.Base{Training: &config.Training{PerfTag: config.Func(func() string { panic("not yet") })}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			tel, err := trainspan.Start(t.Context(), trainspan.WithConfig(cfg), trainspan.WithLogger(slog.New(slog.DiscardHandler)))
			if tel != nil || err == nil || !strings.Contains(err.Error(), "panicked") || !strings.Contains(err.Error(), "not yet") {
				t.Errorf("Start() = %v, %v; want the panic as its error", tel, err)
			}
		})
	}
}

func TestEnvironmentChooses(t *testing.T) {
	t.Setenv("TRAINSPAN_FILE_PATH", "only.jsonl")
	if files := job(t); len(files) != 1 || files[0] != "only.jsonl" {
		t.Errorf("files %q, want only.jsonl", files)
	}
}

// TestFilesBesideABackend checks that the address of a backend, which a cluster
// may set for all jobs, does not replace the files of the run, and that a program
// that can only send starts and reports it once.
func TestFilesBesideABackend(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	defer backend.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", backend.URL)
	if files := job(t); len(files) != 2 || !strings.HasSuffix(files[1], "/trace.pfw.gz") {
		t.Errorf("files %q, want the trace and JSON lines", files)
	}
	t.Setenv("DFTRACER_ENABLE", "0")
	if files := job(t); len(files) != 1 || !strings.HasSuffix(files[0], "/telemetry.jsonl") {
		t.Errorf("files %q, want JSON lines only", files)
	}
	t.Chdir(t.TempDir())
	for _, name := range []string{"trainspan-runs", fmt.Sprintf("trainspan-runs-%d", os.Getuid())} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var said bytes.Buffer
	jobHere(t, trainspan.WithLogger(slog.New(slog.NewTextHandler(&said, nil))))
	if n := strings.Count(said.String(), "telemetry cannot create files for this run; it is only sent"); n != 1 {
		t.Errorf("it is reported %d times, want once: %s", n, &said)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	if tel, err := trainspan.Start(t.Context(), trainspan.WithName("a job")); err == nil || tel != nil {
		t.Errorf("Start() = %v, %v; want an error and no provider", tel, err)
	}
}

func TestRanksOfALauncher(t *testing.T) {
	for name, value := range map[string]string{"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "TORCHELASTIC_RESTART_COUNT": "3"} {
		t.Setenv(name, value)
	}
	files := job(t)
	if len(files) != 2 || !strings.Contains(files[0], "/attempt-4/") || filepath.Base(files[0]) != "telemetry-rank1.jsonl" ||
		filepath.Base(files[1]) != "trace-rank1.pfw.gz" {
		t.Errorf("files %q, want telemetry and trace of rank 1 in attempt-4", files)
	}
}

// Two jobs of a launcher that were never restarted have separate attempts, and
// the ranks of each share one.
func TestJobsOfALauncher(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, value := range map[string]string{"WORLD_SIZE": "2", "TORCHELASTIC_RESTART_COUNT": "0"} {
		t.Setenv(name, value)
	}
	for i, run := range []string{"a", "b"} {
		for rank := range 2 {
			t.Setenv("TORCHELASTIC_RUN_ID", run)
			t.Setenv("RANK", strconv.Itoa(rank))
			files := jobHere(t)
			if want := fmt.Sprintf("/attempt-%d/", i+1); !strings.Contains(files[len(files)-1], want) || len(files) != 2*(2*i+rank+1) {
				t.Errorf("run %s, rank %d: files %q, want %s", run, rank, files, want)
			}
		}
	}
	t.Setenv("TRAINSPAN_ATTEMPT", "8") // an explicit attempt
	if files := jobHere(t); !strings.Contains(files[len(files)-1], "/attempt-9/") {
		t.Errorf("files %q, want attempt-9", files)
	}
}

func TestDirectoryThatIsGiven(t *testing.T) {
	t.Setenv(trainspan.DirVariable, "here")
	t.Setenv("DFTRACER_ENABLE", "0")
	if files := job(t); len(files) != 1 || files[0] != "here/telemetry.jsonl" {
		t.Errorf("files %q, want here/telemetry.jsonl", files)
	}
}

func TestRankThatIsOff(t *testing.T) {
	t.Setenv("TRAINSPAN_ENABLE_FOR_CURRENT_RANK", "false")
	if files := job(t); len(files) != 0 {
		t.Errorf("files: %q, want none", files)
	}
}

func TestBadConfiguration(t *testing.T) {
	t.Setenv("TRAINSPAN_WORLD_SIZE", "many")
	tel, err := trainspan.Start(context.Background(), trainspan.WithConfig(config.Config{}))
	if err == nil || !strings.Contains(err.Error(), "TRAINSPAN_WORLD_SIZE") || tel != nil {
		t.Errorf("Start() = %v, %v; want no provider and an error that names TRAINSPAN_WORLD_SIZE", tel, err)
	}
	_, sp := tel.Start(context.Background(), spans.Application) // does nothing
	sp.End()
}

// Start accepts no context and no option.
func TestStartWithNil(t *testing.T) {
	var none context.Context
	tel, err := trainspan.Start(none, nil, trainspan.WithDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if err := tel.Shutdown(none); err != nil {
		t.Error(err)
	}
}

// Variables of OpenTelemetry that this program cannot use do not prevent the files.
func TestStartWithVariablesOfOtherPrograms(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer backend.Close()
	for name, env := range map[string][][2]string{
		"authorities without TLS": {{"OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"}, {"OTEL_EXPORTER_OTLP_ENDPOINT", backend.URL}},
		"authorities for the logs of another program": {
			{"OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca.pem"}, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", backend.URL + "/v1/traces"},
		},
		"a protocol, a time and attributes in other forms": {
			{"OTEL_EXPORTER_OTLP_ENDPOINT", backend.URL}, {"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"}, {"OTEL_EXPORTER_OTLP_TIMEOUT", "5s"},
			{"OTEL_EXPORTER_OTLP_LOGS_COMPRESSION", "zstd"}, {"OTEL_RESOURCE_ATTRIBUTES", "nonsense"}, {"OTEL_BSP_MAX_QUEUE_SIZE", "-1"},
		},
		"settings of an output that is off": {
			{"OTEL_TRACES_EXPORTER", "none"}, {"OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318"}, {"OTEL_EXPORTER_OTLP_HEADERS", "nonsense"},
		},
		"no SDK": {{"OTEL_SDK_DISABLED", "true"}, {"OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range env {
				t.Setenv(v[0], v[1])
			}
			if files := job(t); len(files) != 2 {
				t.Errorf("files %q, want a trace and records", files)
			}
		})
	}
}

// Blanks around the directory of the run do not count, like those around other variables.
func TestBlanksAroundTheDirectory(t *testing.T) {
	t.Setenv(trainspan.DirVariable, " out ")
	t.Setenv("TRAINSPAN_CONFIG", " ")
	t.Setenv("DFTRACER_CONFIGURATION", "\n")
	files := job(t)
	slices.Sort(files)
	if want := []string{"out/telemetry.jsonl", "out/trace.pfw.gz"}; !slices.Equal(files, want) {
		t.Errorf("files %q, want %q", files, want)
	}
}
