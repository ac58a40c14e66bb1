package config_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/config"
)

// source is what one case sets in each place that configures a job, from the
// weakest to the strongest.
type source struct {
	dftracer    string   // the file that DFTRACER_CONFIGURATION names
	file        string   // the file that TRAINSPAN_CONFIG names
	environment []string // variables
	python      string   // what a Python program passes to configure_provider, as JSON
	code        config.Config
}

// sourceTable shows what each source can set, and which source takes
// precedence.
var sourceTable = []struct {
	name   string
	from   source
	key    string
	want   string // the resulting field as text
	faults []string
}{
	// A single source.
	{name: "a file", from: source{file: "session_tag: file"}, key: "session_tag", want: "file"},
	{name: "a variable", from: source{environment: []string{"TRAINSPAN_SESSION_TAG=env"}}, key: "session_tag", want: "env"},
	{name: "Python", from: source{python: `{"session_tag_or_fn": "python"}`}, key: "session_tag", want: "python"},
	{name: "code", from: source{code: config.Config{Base: config.Base{SessionTag: config.Value("code")}}}, key: "session_tag", want: "code"},
	{name: "a function in code", from: source{file: "session_tag: file", code: config.Config{Base: config.Base{SessionTag: config.Func(func() string { return "code" })}}}, key: "session_tag", want: "func()"},
	{name: "DFTracer's file", from: source{dftracer: "enable: true\ntracer: {log_file: theirs}"}, key: "outputs.trace.path", want: "theirs"},
	{name: "DFTracer's older file", from: source{dftracer: "enable: true\nprofiler: {log_file: theirs}"}, key: "outputs.trace.path", want: "theirs"},
	{name: "a launcher", from: source{environment: []string{"WORLD_SIZE=8"}}, key: "world_size", want: "8"},
	{name: "one-logger's words in a file", from: source{file: "telemetry_config: {global_batch_size_or_fn: 4}"}, key: "training.global_batch_size", want: "4"},

	// Two sources: the stronger one wins.
	{name: "a file over DFTracer's", from: source{dftracer: "enable: true\ntracer: {log_file: theirs}", file: "outputs: {trace: {path: file}}"}, key: "outputs.trace.path", want: "file"},
	{name: "a variable over DFTracer's file", from: source{dftracer: "enable: true", environment: []string{"DFTRACER_ENABLE=0"}}, key: "outputs.trace.enabled", want: "false"},
	{name: "a variable over a file", from: source{file: "session_tag: file", environment: []string{"TRAINSPAN_SESSION_TAG=env"}}, key: "session_tag", want: "env"},
	{name: "Python over a variable", from: source{environment: []string{"TRAINSPAN_SESSION_TAG=env"}, python: `{"session_tag_or_fn": "python"}`}, key: "session_tag", want: "python"},
	{name: "code over a variable", from: source{environment: []string{"TRAINSPAN_SESSION_TAG=env"}, code: config.Config{Base: config.Base{SessionTag: config.Value("code")}}}, key: "session_tag", want: "code"},
	{name: "false wins over true", from: source{file: "is_baseline_run: true", environment: []string{"TRAINSPAN_IS_BASELINE_RUN=false"}}, key: "is_baseline_run", want: "false"},
	{name: "our variable over a launcher's", from: source{environment: []string{"WORLD_SIZE=8", "TRAINSPAN_WORLD_SIZE=4"}}, key: "world_size", want: "4"},
	{name: "a launcher over a file", from: source{file: "world_size: 2", environment: []string{"WORLD_SIZE=8"}}, key: "world_size", want: "8"},
	{name: "OpenTelemetry's variable of a signal over the general one", from: source{environment: []string{"OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf"}}, key: "outputs.otlp.protocol", want: "http/protobuf"},

	// Unset values do not replace those of a weaker source.
	{name: "null is not set", from: source{dftracer: "enable: true\ntracer: {log_file: theirs}", file: "outputs: {trace: {path: null}}"}, key: "outputs.trace.path", want: "theirs"},
	{name: "an empty variable is not set", from: source{file: "session_tag: file", environment: []string{"TRAINSPAN_SESSION_TAG="}}, key: "session_tag", want: "file"},
	{name: "Python's None is not set", from: source{file: "training: {micro_batch_size: 2}", python: `{"telemetry_config": {"micro_batch_size_or_fn": null}}`}, key: "training.micro_batch_size", want: "2"},
	{name: "another field of a section", from: source{file: "training: {micro_batch_size: 2}", code: config.Config{Base: config.Base{Training: &config.Training{SeqLength: config.Value(9)}}}}, key: "training.micro_batch_size", want: "2"},

	// Mappings are merged key by key, lists are replaced.
	{name: "metadata", from: source{file: "custom_metadata: {a: 1, b: 1}", environment: []string{"TRAINSPAN_CUSTOM_METADATA=b=2,c=2"}, code: config.Config{Base: config.Base{CustomMetadata: config.Pairs("c", 3, "d", 3)}}}, key: "custom_metadata", want: "[{a 1} {b 2} {c 3} {d 3}]"},
	{name: "resource attributes", from: source{file: "otel: {resource_attributes: {a: 1}}", environment: []string{"OTEL_RESOURCE_ATTRIBUTES=b=2"}}, key: "otel.resource_attributes", want: "[{a 1} {b 2}]"},
	{name: "headers", from: source{file: "outputs: {otlp: {headers: {a: '1'}}}", environment: []string{"OTEL_EXPORTER_OTLP_HEADERS=b=2"}}, key: "outputs.otlp.headers", want: "{a=REDACTED, b=REDACTED}"},
	{name: "lists", from: source{file: "export: {mode: WHITELIST_SPANS, span_names: [a, b]}", environment: []string{"TRAINSPAN_EXPORT_SPAN_NAMES=c"}}, key: "export.span_names", want: "[c]"},

	// Fields that exclude each other: the stronger source decides.
	{name: "tags over a tag", from: source{file: "training: {perf_tag: a}", environment: []string{"TRAINSPAN_PERF_TAGS=b,c"}}, key: "training.perf_tag", want: "unset"},
	{name: "a tag over tags", from: source{file: "training: {perf_tag: [a, b]}", python: `{"telemetry_config": {"perf_tag_or_fn": "c"}}`}, key: "training.perf_tags", want: "unset"},
	{name: "an endpoint over those of signals", from: source{file: "outputs: {otlp: {traces_endpoint: 'http://a/t'}}", environment: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://b"}}, key: "outputs.otlp.traces_endpoint", want: ""},
	{name: "the service name instead of an application", from: source{environment: []string{"OTEL_SERVICE_NAME=svc"}}, key: "application_name", want: "svc"},

	// What a source cannot set.
	{name: "a rank in a file", from: source{file: "rank: 3"}, faults: []string{`:1:1: rank: unknown key "rank"`}},
	{name: "an unknown key of a file", from: source{file: "session_tagg: x"}, faults: []string{`:1:1: session_tagg: unknown key "session_tagg"; did you mean "session_tag"?`}},
	{name: "an unknown key of Python", from: source{python: `{"session_tagg": "x", "world_size_or_fn": 2}`}, key: "world_size", want: "2"},
	{name: "an unknown key of DFTracer's file", from: source{dftracer: "enable: true\ngotcha: {priority: 1}"}, key: "outputs.trace.enabled", want: "true"},
	{name: "DFTracer's file with a list", from: source{dftracer: "[enable]"}, faults: []string{"dft.yaml: must be a mapping of keys to values"}},
	{name: "a file with a list", from: source{file: "[session_tag]"}, faults: []string{"job.yaml: must be a mapping of keys to values"}},
	{name: "a bad value in each source", from: source{dftracer: "enable: maybe", file: "world_size: many", environment: []string{"TRAINSPAN_SEQ_LENGTH=long"}},
		faults: []string{":1:9: outputs.trace.enabled: must be true or false", `:1:13: world_size: must be an integer (got "many")`, `TRAINSPAN_SEQ_LENGTH: training.seq_length: must be an integer (got "long")`}},
}

func TestSources(t *testing.T) {
	for _, c := range sourceTable {
		t.Run(c.name, func(t *testing.T) {
			vars := slices.Clone(c.from.environment)
			if c.from.dftracer != "" {
				vars = append(vars, "DFTRACER_CONFIGURATION="+write(t, "dft.yaml", c.from.dftracer))
			}
			if c.from.file != "" {
				vars = append(vars, "TRAINSPAN_CONFIG="+write(t, "job.yaml", c.from.file))
			}
			code := c.from.code
			if c.from.python != "" {
				code.Base = fromPython(t, c.from.python)
			}
			cfg, err := config.Load(config.LoadOptions{Partial: true, LookupEnv: config.Environ(vars), Code: code})
			if (err != nil) != (len(c.faults) > 0) {
				t.Fatalf("error = %v, want %q", err, c.faults)
			}
			for _, fault := range c.faults {
				if !strings.Contains(err.Error(), fault) {
					t.Errorf("error = %v, want it to have %q", err, fault)
				}
			}
			if c.key == "" {
				return
			}
			fields := flatten(&cfg)
			fields["outputs.otlp.headers"] = fmt.Sprint(cfg.Outputs.OTLP.Headers)
			if got, ok := fields[c.key]; got != c.want || !ok && c.want != "unset" {
				t.Errorf("%s = %q, want %q", c.key, got, c.want)
			}
		})
	}
}

// fromPython returns the configuration of a Python program.
func fromPython(t *testing.T, text string) config.Base {
	t.Helper()
	base, unknown, err := config.Decode[config.Base]([]byte(text), "")
	if err != nil || len(unknown) != strings.Count(text, "session_tagg") {
		t.Fatalf("unknown keys %v, %v; want each session_tagg", unknown, err)
	}
	return base
}
