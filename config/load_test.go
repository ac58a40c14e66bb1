package config_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/record/settings"
)

// environmentTexts holds, for each variable, a value that differs from
// testdata/job.yaml, and the resulting field as text.
var environmentTexts = map[string][2]string{
	"TRAINSPAN_APPLICATION_NAME":                   {"env-app", "env-app"},
	"TRAINSPAN_SESSION_TAG":                        {"env-tag", "env-tag"},
	"TRAINSPAN_WORLD_SIZE":                         {"64", "64"},
	"WORLD_SIZE":                                   {"65", "65"},
	"SLURM_NTASKS":                                 {"66", "66"},
	"OMPI_COMM_WORLD_SIZE":                         {"67", "67"},
	"PMI_SIZE":                                     {"68", "68"},
	"TRAINSPAN_IS_BASELINE_RUN":                    {"0", "false"},
	"TRAINSPAN_CUSTOM_METADATA":                    {"zone=us%2C1,extra=x", "[{zone us,1} {gpus [h200 b200]} {lr 0.0003} {seed 7046430720000000000000} {extra x}]"},
	"TRAINSPAN_ERROR_STRATEGY":                     {"propagate_exceptions", "propagate_exceptions"},
	"TRAINSPAN_ENABLE_FOR_CURRENT_RANK":            {"false", "false"},
	"TRAINSPAN_LOG_LEVEL":                          {"DEBUG", "DEBUG"},
	"TRAINSPAN_LOG_FORMAT":                         {"%(name)s", "%(name)s"},
	"TRAINSPAN_LOG_INFO_PATH":                      {"i", "i"},
	"TRAINSPAN_LOG_ERROR_PATH":                     {"e", "e"},
	"TRAINSPAN_SUMMARY_DATA_SCHEMA_VERSION":        {"9", "9"},
	"TRAINSPAN_EXPLICIT_TIME_WINDOW":               {"-1s", "-1s"},
	"TRAINSPAN_PERF_TAG":                           {"env-perf", "env-perf"},
	"TRAINSPAN_GLOBAL_BATCH_SIZE":                  {"128", "128"},
	"TRAINSPAN_MICRO_BATCH_SIZE":                   {"5", "5"},
	"TRAINSPAN_SEQ_LENGTH":                         {"4096", "4096"},
	"TRAINSPAN_FLOPS_PER_SAMPLE":                   {"3400000000000001", "3400000000000001"},
	"TRAINSPAN_PEAK_FLOPS":                         {"989000000000000", "989000000000000"},
	"TRAINSPAN_TRAIN_ITERATIONS_TARGET":            {"11", "11"},
	"TRAINSPAN_TRAIN_SAMPLES_TARGET":               {"12", "12"},
	"TRAINSPAN_LOG_EVERY_N_TRAIN_ITERATIONS":       {"13", "13"},
	"TRAINSPAN_IS_LOG_THROUGHPUT_ENABLED":          {"off", "false"},
	"TRAINSPAN_IS_TRAIN_ITERATIONS_ENABLED":        {"on", "true"},
	"TRAINSPAN_IS_VALIDATION_ITERATIONS_ENABLED":   {"1", "true"},
	"TRAINSPAN_IS_TEST_ITERATIONS_ENABLED":         {"yes", "true"},
	"TRAINSPAN_IS_SAVE_CHECKPOINT_ENABLED":         {"True", "true"},
	"TRAINSPAN_SAVE_CHECKPOINT_STRATEGY":           {"sync", "sync"},
	"TRAINSPAN_TRAINING_CUSTOM_METADATA":           {"model=env", "[{moe false} {model env}]"},
	"TRAINSPAN_EXPORT_MODE":                        {"BLACKLIST_SPANS", "BLACKLIST_SPANS"},
	"TRAINSPAN_EXPORT_SPAN_NAMES":                  {"a, b", "[a b]"},
	"TRAINSPAN_FILE_ENABLED":                       {"0", "false"},
	"TRAINSPAN_FILE_PATH":                          {"env.jsonl", "env.jsonl"},
	"TRAINSPAN_FILE_COMPAT":                        {"false", "false"},
	"TRAINSPAN_FILE_APPEND":                        {"false", "false"},
	"DFTRACER_ENABLE":                              {"0", "false"},
	"DFTRACER_LOG_FILE":                            {"env", "env"},
	"TRAINSPAN_TRACE_DIALECT":                      {"v1", "v1"},
	"DFTRACER_INC_METADATA":                        {"1", "true"},
	"DFTRACER_TRACE_COMPRESSION":                   {"on", "true"},
	"DFTRACER_WRITE_BUFFER_SIZE":                   {"1024", "1024"},
	"DFTRACER_TRACE_INTERVAL_MS":                   {"50", "50ms"},
	"DFTRACER_SET_CORE_AFFINITY":                   {"0", "false"},
	"TRAINSPAN_TRACE_COMMAND_LINE":                 {"0", "false"},
	"DFTRACER_DISABLE_TIDS":                        {"0", "true"},
	"DFTRACER_DATA_DIR":                            {"/x:/y", "[/x /y]"},
	"DFTRACER_DISABLE_IO":                          {"1", "false"},
	"DFTRACER_DISABLE_POSIX":                       {"0", "true"},
	"DFTRACER_DISABLE_STDIO":                       {"1", "false"},
	"TRAINSPAN_TRACE_AGGREGATE_IO":                 {"1", "true"},
	"OTEL_TRACES_EXPORTER":                         {"none", "false"},
	"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL":           {"http/protobuf", "http/protobuf"},
	"OTEL_EXPORTER_OTLP_PROTOCOL":                  {"http/protobuf", "http/protobuf"},
	"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT":           {"http://env:1/t", "http://env:1/t"},
	"OTEL_EXPORTER_OTLP_TRACES_HEADERS":            {"api-key=env%20secret", "env secret"},
	"OTEL_EXPORTER_OTLP_HEADERS":                   {"api-key=b", "b"},
	"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT":            {"1500", "1.5s"},
	"OTEL_EXPORTER_OTLP_TIMEOUT":                   {"2500", "2.5s"},
	"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION":        {"none", "none"},
	"OTEL_EXPORTER_OTLP_COMPRESSION":               {"none", "none"},
	"OTEL_EXPORTER_OTLP_TRACES_INSECURE":           {"false", "false"},
	"OTEL_EXPORTER_OTLP_INSECURE":                  {"false", "false"},
	"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE":        {"t", "t"},
	"OTEL_EXPORTER_OTLP_CERTIFICATE":               {"c", "c"},
	"OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE": {"t", "t"},
	"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE":        {"c", "c"},
	"OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY":         {"t", "t"},
	"OTEL_EXPORTER_OTLP_CLIENT_KEY":                {"c", "c"},
	"OTEL_BSP_MAX_QUEUE_SIZE":                      {"5000", "5000"},
	"OTEL_BSP_MAX_EXPORT_BATCH_SIZE":               {"100", "100"},
	"OTEL_BSP_SCHEDULE_DELAY":                      {"100", "100ms"},
	"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT":             {"http://env:1/l", "http://env:1/l"},
	"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT":          {"http://env:1/m", "http://env:1/m"},
	"OTEL_LOGS_EXPORTER":                           {"none", "false"},
	"OTEL_METRICS_EXPORTER":                        {"prometheus", "false"},
	"OTEL_METRIC_EXPORT_INTERVAL":                  {"1500", "1.5s"},
	"FLUX_JOB_SIZE":                                {"48", "48"},
	"TRAINSPAN_OTLP_SPILL_DIR":                     {"/env", "/env"},
	"TRAINSPAN_OTLP_SPILL_BYTES":                   {"2000", "2000"},
	"TRAINSPAN_OTLP_SEGMENT":                       {"90s", "1m30s"},
	"TRAINSPAN_OTLP_TRACE_SPLIT":                   {"per-attempt", "per-attempt"},
	"TRAINSPAN_OTLP_TRACE_WINDOW":                  {"70", "70"},
	"TRAINSPAN_OTLP_TRACE_BUDGET":                  {"-1", "-1"},
	"TRAINSPAN_PROMETHEUS_ADDRESS":                 {"localhost:0", "localhost:0"},
	"TRAINSPAN_PROMETHEUS_ALLOW_REMOTE":            {"no", "false"},
	"OTEL_SDK_DISABLED":                            {"FALSE", "false"},
	"OTEL_SERVICE_NAME":                            {"env", "env"},
	"OTEL_RESOURCE_ATTRIBUTES":                     {"team=env", "[{team env} {tier 1}]"},
}

// twoKeys are variables that change more than one field.
var twoKeys = []string{"TRAINSPAN_PERF_TAGS", "OTEL_EXPORTER_OTLP_ENDPOINT"}

func TestPrecedenceFieldByField(t *testing.T) {
	file := mustLoad(t, config.LoadOptions{Path: "testdata/job.yaml", LookupEnv: config.Environ(nil)})
	code := decodeFile(t, "testdata/code.yaml")
	fromFile, fromCode := flatten(&file), flatten(&code)

	for name, key := range config.EnvironmentVariables() {
		if slices.Contains(twoKeys, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			text, ok := environmentTexts[name]
			if !ok {
				t.Fatal("no value to test with")
			}
			opts := config.LoadOptions{Path: "testdata/job.yaml", LookupEnv: config.Environ([]string{name + "=" + text[0]})}
			cfg := mustLoad(t, opts)
			got := flatten(&cfg)
			key := key // for headers, the key of one of them
			if strings.HasSuffix(key, ".headers") {
				key += ".api-key"
			}
			if got[key] != text[1] {
				t.Errorf("%s = %q, want %q", key, got[key], text[1])
			}
			if fromFile[key] == text[1] {
				t.Errorf("the file has %q too, want another value for the test", text[1])
			}
			for other := range got {
				if other != key && got[other] != fromFile[other] {
					t.Errorf("%s changed to %q, want %q", other, got[other], fromFile[other])
				}
			}

			opts.Code = code
			opts.Partial = true // the combination of the two sources breaks rules
			cfg = mustLoad(t, opts)
			got = flatten(&cfg)
			want := fromCode[key]
			if key == "custom_metadata" {
				want = strings.TrimSuffix(want, "]") + " {extra x}]"
			}
			if got[key] != want {
				t.Errorf("with code, %s = %q, want %q", key, got[key], want)
			}
		})
	}
}

func TestCodeWinsOverFileFieldByField(t *testing.T) {
	file, code := decodeFile(t, "testdata/job.yaml"), decodeFile(t, "testdata/code.yaml")
	both := mustLoad(t, config.LoadOptions{Path: "testdata/job.yaml", LookupEnv: config.Environ(nil), Code: code, Partial: true})
	a, b, got := flatten(&file), flatten(&code), flatten(&both)
	delete(b, "training.perf_tags")   // excluded by perf_tag
	delete(b, "outputs.otlp.headers") // its entries have their own lines
	for key := range b {
		if got[key] != b[key] || a[key] == b[key] {
			t.Errorf("%s = %q with file %q and code %q, want that of the code", key, got[key], a[key], b[key])
		}
	}
}

// TestEveryKeyIsCovered checks that the test files and the variables are
// complete.
func TestEveryKeyIsCovered(t *testing.T) {
	var zero config.Config
	zero.Training = &config.Training{}
	keys := slices.Sorted(maps.Keys(flatten(&zero)))
	file := decodeFile(t, "testdata/job.yaml")
	set := flatten(&file)
	variables := map[string]bool{}
	for _, key := range config.EnvironmentVariables() {
		variables[key] = true
	}
	for _, key := range keys {
		if v := set[key]; (v == "" || v == "unset" || v == "0" || v == "[]") && key != "training.perf_tags" && !strings.HasSuffix(key, "headers") {
			t.Errorf("testdata/job.yaml does not set %s", key)
		}
		if !variables[key] {
			t.Errorf("no environment variable for %s", key)
		}
		delete(variables, key)
	}
	if len(variables) > 0 {
		t.Errorf("variables for unknown keys: %v, want none", variables)
	}
}

func TestAlternativesAcrossSources(t *testing.T) {
	cfg := mustLoad(t, config.LoadOptions{Path: "testdata/job.yaml", LookupEnv: config.Environ([]string{
		"TRAINSPAN_PERF_TAGS=a", "OTEL_EXPORTER_OTLP_ENDPOINT=https://other:4317",
	})})
	if tags, isList := settings.Tags(cfg.Training); !isList || !slices.Equal(tags, []string{"a"}) {
		t.Errorf("tags %v, list %v; want [a], true", tags, isList)
	}
	if got := cfg.Outputs.OTLP.TracesURL(); got != "https://other:4317" {
		t.Errorf("URL = %s, want \"https://other:4317\"", got)
	}
}

func TestLoadFindsFileByVariable(t *testing.T) {
	cfg := mustLoad(t, config.LoadOptions{LookupEnv: config.Environ([]string{"TRAINSPAN_CONFIG=testdata/job.yaml"})})
	if cfg.ApplicationName != "charlm" {
		t.Errorf("application name = %q, want \"charlm\"", cfg.ApplicationName)
	}
	_, err := config.Load(config.LoadOptions{Path: "testdata/none.yaml", LookupEnv: config.Environ(nil)})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "testdata/none.yaml") {
		t.Errorf("error = %v", err)
	}
	for _, name := range []string{"TRAINSPAN_CONFIG", "DFTRACER_CONFIGURATION"} {
		_, err := config.Load(config.LoadOptions{LookupEnv: config.Environ([]string{name + "=testdata/none.yaml"})})
		if want := "config: " + name + ": open testdata/none.yaml: "; !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error = %v, want %s", err, want)
		}
	}
}

func TestLoadReportsEveryProblemWithItsPlace(t *testing.T) {
	path := write(t, "job.yaml", "application_name: ' '\nsession_tag: s\nworldsize: 4\ntraining:\n  perf_tag: p\n  global_batch_size: abc\n  log_every_n_train_iterations: 0\nglobal_batch_sizes: 3\noutputs:\n  otlp:\n    endpont: x\n")
	_, err := config.Load(config.LoadOptions{Path: path, LookupEnv: config.Environ([]string{
		"RANK=-1", "WORLD_SIZE=many", "DFTRACER_TRACE_INTERVAL_MS=soon", "OTEL_EXPORTER_OTLP_HEADERS=secret", "TRAINSPAN_CUSTOM_METADATA=a:secret",
	})})
	want := []string{
		path + `:3:1: worldsize: unknown key "worldsize"; did you mean "world_size"?`,
		path + `:6:22: training.global_batch_size: must be an integer (got "abc")`,
		path + `:8:1: global_batch_sizes: unknown key "global_batch_sizes"; did you mean "training.global_batch_size"?`,
		path + `:11:5: outputs.otlp.endpont: unknown key "endpont"; did you mean "outputs.otlp.endpoint"?`,
		`DFTRACER_TRACE_INTERVAL_MS: outputs.trace.write_interval: must be a number of milliseconds (got "soon")`,
		`OTEL_EXPORTER_OTLP_HEADERS: outputs.otlp.headers: must have the form key=value,key=value`,
		`TRAINSPAN_CUSTOM_METADATA: custom_metadata: must have the form key=value,key=value`,
		`WORLD_SIZE: world_size: must be an integer (got "many")`,
		`RANK: rank: must not be negative (got "-1")`,
		path + `:1:19: application_name: cannot be empty or whitespace-only: name the application in a file, in TRAINSPAN_APPLICATION_NAME or in code (got " ")`,
		path + `:7:33: training.log_every_n_train_iterations: must be set to a positive value (got 0)`,
	}
	var invalid *config.ValidationError
	if !errors.As(err, &invalid) {
		t.Fatalf("error %v, want a ValidationError", err)
	}
	for _, line := range want {
		if !strings.Contains(err.Error(), line) {
			t.Errorf("the error has no line %q: %v", line, err)
		}
	}
	if len(invalid.Problems) != len(want) {
		t.Errorf("%d problems, want %d:\n%v", len(invalid.Problems), len(want), err)
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the error shows a header: %v, want it without values", err)
	}
}

// A program that changes what it has loaded, and validates later, gets the same
// positions.
func TestValidateKeepsThePlaces(t *testing.T) {
	path := write(t, "job.yaml", "application_name: a\nerror_strategy: loud\ntraining: {is_log_throughput_enabled: true}\noutputs:\n  trace: {dialect: v3, path: x}\n  otlp: {endpoint: nowhere, headers: {a b: c}}\n")
	env := config.Environ([]string{"TRAINSPAN_CONFIG=" + path, "TRAINSPAN_OTLP_TRACE_BUDGET=5", "TRAINSPAN_LOG_LEVEL=loud"})
	loaded := mustLoad(t, config.LoadOptions{Partial: true, LookupEnv: env})
	_, atOnce := config.Load(config.LoadOptions{LookupEnv: env})
	again := mustLoad(t, config.LoadOptions{Partial: true, LookupEnv: config.Environ(nil), Code: config.Clone(&loaded)})
	for name, cfg := range map[string]*config.Config{"loaded": &loaded, "loaded twice": &again} {
		if err := cfg.Validate(); fmt.Sprint(err) != fmt.Sprint(atOnce) && name == "loaded" {
			t.Errorf("%s: got\n%v\nwant\n%v", name, err, atOnce)
		}
		for _, want := range []string{
			path + ":2:17: error_strategy: ", path + ":5:20: outputs.trace.dialect: ", path + ":6:20: outputs.otlp.endpoint: ", path + ":6:38: outputs.otlp.headers: ",
			"TRAINSPAN_OTLP_TRACE_BUDGET: outputs.otlp.trace_budget: ", "TRAINSPAN_LOG_LEVEL: logger.level: ",
		} {
			if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "  "+want) {
				t.Errorf("%s: got\n%v\nwant %s", name, err, want)
			}
		}
	}
	if want := path + ":3:11: training.flops_per_sample: "; !strings.Contains(loaded.Validate().Error(), want) {
		t.Errorf("got\n%v\nwant %s", loaded.Validate(), want)
	}

	// A value that the program sets later is not in the file.
	loaded.Outputs.Trace.Dialect, loaded.Outputs.Trace.BufferSize, loaded.Ranks.Rank = "v4", -1, config.Value(-1)
	for _, want := range []string{"\n  outputs.trace.dialect: ", "\n  outputs.trace.buffer_size: ", "\n  rank: "} {
		if err := loaded.Validate(); !strings.Contains(err.Error(), want) {
			t.Errorf("got\n%v\nwant %q", err, want)
		}
	}
}

// An error of a partial load includes broken rules, but not settings that may
// still come.
func TestPartialErrorHasBrokenRules(t *testing.T) {
	env := []string{"TRAINSPAN_SEQ_LENGTH=long", "TRAINSPAN_FILE_ENABLED=1", "TRAINSPAN_LOG_LEVEL=loud"}
	_, err := config.Load(config.LoadOptions{Partial: true, LookupEnv: config.Environ(env)})
	const want = `config: 2 problems:
  TRAINSPAN_SEQ_LENGTH: training.seq_length: must be an integer (got "long")
  TRAINSPAN_LOG_LEVEL: logger.level: must be 'DEBUG', 'INFO', 'WARNING', 'ERROR' or 'CRITICAL' (got "loud")`
	if fmt.Sprint(err) != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestDFTracerFile(t *testing.T) {
	theirs := write(t, "dft.yaml", "enable: true\nprofiler:\n  init: FUNCTION\n  log_file: /tmp/theirs\n  data_dirs: /a:/b\n  compression: false\nfeatures: {tid: false, metadata: true, io: {enable: true}}\ninternal: {write_buffer_size: 99}\n")
	ours := write(t, "job.yaml", "outputs: {trace: {compression: true}}\n")
	cfg := mustLoad(t, config.LoadOptions{Path: ours, Partial: true, LookupEnv: config.Environ([]string{"DFTRACER_CONFIGURATION=" + theirs, "DFTRACER_LOG_FILE=/tmp/env"})})
	tr := cfg.Outputs.Trace
	if !settings.TraceActive(&cfg) || tr.Path != "/tmp/env" || !tr.Compression.Or(true) || tr.TIDs.Or(true) || tr.BufferSize != 99 || !slices.Equal(tr.DataDirs, []string{"/a", "/b"}) {
		t.Errorf("trace %+v, want the values of the file under those of the environment", tr)
	}
}

func TestDisableTIDsIsNotInverted(t *testing.T) {
	for text, want := range map[string]bool{"1": false, "0": true} {
		cfg := mustLoad(t, config.LoadOptions{Partial: true, LookupEnv: config.Environ([]string{"DFTRACER_DISABLE_TIDS=" + text})})
		if got := cfg.Outputs.Trace.TIDs.Or(true); got != want {
			t.Errorf("DFTRACER_DISABLE_TIDS=%s: thread ids %v, want %v", text, got, want)
		}
	}
}

func mustLoad(t *testing.T, opts config.LoadOptions) config.Config {
	t.Helper()
	cfg, err := config.Load(opts)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func decodeFile(t *testing.T, path string) config.Config {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cfg, unknown, err := config.Decode[config.Config](data, path)
	if err != nil || len(unknown) > 0 {
		t.Fatalf("unknown keys %v, %v; want none", unknown, err)
	}
	return cfg
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// flatten returns every field as text, by its key.
func flatten(cfg *config.Config) map[string]string {
	out := map[string]string{}
	flattenInto(out, "", reflect.ValueOf(cfg).Elem())
	return out
}

func flattenInto(out map[string]string, path string, v reflect.Value) {
	switch x := v.Interface().(type) {
	case config.Headers:
		out[path] = ""
		for name, value := range x {
			out[path+"."+name] = value
		}
		return
	case time.Duration:
		if out[path] = x.String(); x == 0 {
			out[path] = "0"
		}
		return
	case interface{ IsSet() bool }:
		out[path] = fmt.Sprint(v.Interface())
		return
	}
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		out[path] = fmt.Sprint(v.Interface())
		return
	}
	for i := range v.NumField() {
		key := v.Type().Field(i).Tag.Get("key")
		switch {
		case key == "" && !v.Type().Field(i).Anonymous:
		case v.Type().Field(i).Anonymous:
			flattenInto(out, path, v.Field(i))
		default:
			flattenInto(out, strings.TrimPrefix(path+"."+key, "."), v.Field(i))
		}
	}
}
