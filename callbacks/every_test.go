package callbacks_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/trainspan/trainspan/callbacks"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/exporters/file"
	"github.com/trainspan/trainspan/telemetry"
)

// calls is a job that uses every callback, with the arguments after ctx.
var calls = []struct {
	name string
	args []any
}{
	{"OnAppStart", nil}, {"OnDistributedInitStart", nil}, {"OnDistributedInitEnd", nil},
	{"OnModelInitStart", nil}, {"OnModelInitEnd", nil}, {"OnOptimizerInitStart", nil}, {"OnOptimizerInitEnd", nil},
	{"OnDataLoaderInitStart", nil}, {"OnDataLoaderInitEnd", []any{callbacks.End{Err: errors.New("no such file")}}},
	{"OnLoadCheckpointStart", nil}, {"OnLoadCheckpointEnd", nil},
	{"OnTrainStart", []any{callbacks.TrainStart{IterationsStart: 7}}}, {"OnEpochStart", []any{3}},
	{"OnTrainingSingleIterationStart", nil}, {"OnDataLoadingStart", nil}, {"OnDataLoadingEnd", nil},
	{"OnModelForwardStart", nil}, {"OnModelForwardEnd", nil}, {"OnZeroGradStart", nil}, {"OnZeroGradEnd", nil},
	{"OnModelBackwardStart", nil}, {"OnModelBackwardEnd", nil}, {"OnOptimizerUpdateStart", nil}, {"OnOptimizerUpdateEnd", nil},
	{"OnTrainingSingleIterationEnd", []any{callbacks.IterationEnd{Loss: callbacks.Some(0.5)}}},
	{"OnSaveCheckpointStart", []any{callbacks.SaveStart{GlobalStep: 8}}},
	{"OnSaveCheckpointSuccess", []any{callbacks.SaveSuccess{GlobalStep: 8}}}, {"OnSaveCheckpointEnd", nil},
	{"OnCheckpointFinalizationStart", []any{callbacks.Finalization{GlobalStep: 8}}},
	{"OnCheckpointFinalizationEnd", []any{callbacks.Finalization{GlobalStep: 8}}},
	{"OnSaveCheckpointFailure", []any{callbacks.SaveFailure{GlobalStep: 9, Err: errors.New("disk full")}}},
	{"OnValidationStart", nil}, {"OnValidationSingleIterationStart", nil}, {"OnValidationSingleIterationEnd", nil}, {"OnValidationEnd", nil},
	{"OnEpochEnd", nil}, {"OnTrainEnd", nil},
	{"OnTestingStart", nil}, {"OnTestingSingleIterationStart", nil}, {"OnTestingSingleIterationEnd", nil}, {"OnTestingEnd", nil},
	{"OnAppEnd", nil},
}

// records runs the job and returns its JSON lines without what differs between
// runs: ids and stacks.
func records(t *testing.T, find func(tel *telemetry.Provider, name string) reflect.Value) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "telemetry.jsonl")
	now := time.Unix(1_760_000_000, 0)
	tel, err := telemetry.NewTrainingTelemetryBuilder().WithLogger(quiet()).
		WithClock(func() time.Time { return now }).
		WithBaseConfig(config.Base{ApplicationName: "app", SessionTag: config.Value("s"), WorldSize: config.Value(1)}).
		WithTrainingConfig(config.Training{PerfTag: config.Value("p"), GlobalBatchSize: config.Value(4)}).
		WithExporter(file.New(path, &file.Options{Heartbeat: -1}), config.Export{Mode: config.ExportAll}).
		ConfigureProvider(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer telemetry.SetDefault(tel)()
	for _, c := range calls {
		in := []reflect.Value{reflect.ValueOf(context.Background())}
		for _, a := range c.args {
			in = append(in, reflect.ValueOf(a))
		}
		out := find(tel, c.name).Call(in)
		if err, _ := out[len(out)-1].Interface().(error); err != nil {
			t.Errorf("callback %s: %v", c.name, err)
		}
		now = now.Add(time.Second)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	varying := regexp.MustCompile(`"(span_id|id|parent_id|trace_id|exception_traceback|parent_span_id)":"[^"]*"`)
	return string(varying.ReplaceAll(text, []byte(`"$1":""`)))
}

// TestEveryCallback checks that a job that uses every callback is recorded
// without an error, and that the callbacks of the default provider record the
// same.
func TestEveryCallback(t *testing.T) {
	used := map[string]bool{}
	for _, c := range calls {
		used[c.name] = true
	}
	methods := reflect.TypeFor[*callbacks.Callbacks]()
	for i := range methods.NumMethod() {
		if name := methods.Method(i).Name; !used[name] {
			t.Errorf("%s is not called", name)
		}
	}
	own := records(t, func(tel *telemetry.Provider, name string) reflect.Value {
		return reflect.ValueOf(callbacks.New(tel)).MethodByName(name)
	})
	byDefault := records(t, func(_ *telemetry.Provider, name string) reflect.Value {
		return reflect.ValueOf(callbacks.Default()).MethodByName(name)
	})
	if own != byDefault {
		t.Errorf("records of an own provider\n%s\nwant as with the default\n%s", own, byDefault)
	}
	if n := bytes.Count([]byte(own), []byte("\n")); n < 50 {
		t.Errorf("only %d records, want at least 50", n)
	}
}
