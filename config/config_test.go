package config_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/record/settings"
)

func TestVar(t *testing.T) {
	calls := 0
	counter := config.Func(func() int { calls++; return calls })
	for _, c := range []struct {
		name        string
		v           config.Var[int]
		set, isFunc bool
		get, or     int
		text        string
	}{
		{"unset", config.Var[int]{}, false, false, 0, 7, "unset"},
		{"zero value", config.Value(0), true, false, 0, 0, "0"},
		{"value", config.Value(3), true, false, 3, 3, "3"},
		{"function", counter, true, true, 1, 2, "func()"},
		{"nil function", config.Func[int](nil), false, false, 0, 7, "unset"},
	} {
		if got := c.v.IsSet(); got != c.set {
			t.Errorf("%s: set = %v, want %v", c.name, got, c.set)
		}
		if got := c.v.IsFunc(); got != c.isFunc {
			t.Errorf("%s: function = %v, want %v", c.name, got, c.isFunc)
		}
		if got := c.v.Get(); got != c.get {
			t.Errorf("%s: get = %d, want %d", c.name, got, c.get)
		}
		if got := c.v.Or(7); got != c.or {
			t.Errorf("%s: or = %d, want %d", c.name, got, c.or)
		}
		if got := c.v.String(); got != c.text {
			t.Errorf("%s: text = %q, want %q", c.name, got, c.text)
		}
	}
	if calls != 2 {
		t.Errorf("the function was called %d times: its results must not be kept, want 2", calls)
	}
}

func TestReadingSettingsAllocatesNothing(t *testing.T) {
	tr := config.Training{GlobalBatchSize: config.Func(func() int { return 32 }), FlopsPerSample: config.Value(5)}
	sum := 0
	if n := testing.AllocsPerRun(100, func() {
		sum += tr.GlobalBatchSize.Get() + tr.FlopsPerSample.Or(1) + tr.LogEveryNTrainIterations.Or(50)
		if tr.IsLogThroughputEnabled.Or(false) {
			sum++
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestDefaults(t *testing.T) {
	cfg := config.Config{Base: config.Base{ApplicationName: "a", Training: &config.Training{GlobalBatchSize: config.Value(1)}}}
	if err := cfg.Validate(); err != nil {
		t.Errorf("an application name is not enough: %v", err)
	}
	open := fmt.Sprint(flatten(&cfg))
	b := cfg.WithDefaults(config.Ranks{})
	trace, otlp := settings.Trace(cfg.Outputs.Trace), settings.OTLP(cfg.Outputs.OTLP)
	for name, ok := range map[string]bool{
		"enabled":        b.EnableForCurrentRank.Or(true),
		"world size":     b.WorldSize.Get() == 1,
		"session tag":    len(b.SessionTag.Get()) > 15,
		"strategy":       b.ErrorStrategy == config.PropagateErrors,
		"log level":      b.Logger.Level == "INFO",
		"schema":         b.SummaryDataSchemaVersion == "1.0.0",
		"window":         b.ExplicitTimeWindow == 600*time.Second,
		"log every":      b.Training.LogEveryNTrainIterations.Get() == 50,
		"checkpoint":     b.Training.SaveCheckpointStrategy == config.CheckpointSync,
		"perf tag":       tags(*b.Training) == "[a] false",
		"export":         cfg.Export.UsesDefaultNames(),
		"no output":      !settings.FileActive(&cfg) && !settings.TraceActive(&cfg) && !settings.OTLPActive(&cfg) && !settings.PrometheusActive(&cfg),
		"trace path":     trace.Path == "./trace",
		"trace buffer":   trace.BufferSize == 1<<20,
		"trace dialect":  trace.Dialect == config.TraceV2,
		"trace interval": trace.WriteInterval == 500*time.Millisecond,
		"protocol":       otlp.Protocol == config.OTLPHTTP,
		"timeout":        otlp.Timeout == 10*time.Second,
		"no gzip":        otlp.Compression == "none",
		"interval":       otlp.MetricsInterval == time.Minute,
	} {
		if !ok {
			t.Errorf("default of %s is not in %+v", name, b)
		}
	}
	if now := fmt.Sprint(flatten(&cfg)); now != open {
		t.Errorf("the original changed: %s, want %s", now, open)
	}
	if again := b.WithDefaults(config.Ranks{WorldSize: config.Value(7)}); again.SessionTag.Get() != b.SessionTag.Get() || again.WorldSize.Get() != 1 {
		t.Errorf("WithDefaults a second time changes %+v to %+v, want the same", b, again)
	}
	other := cfg.WithDefaults(config.Ranks{WorldSize: config.Value(7), Job: "4711"})
	if other.WorldSize.Get() != 7 || other.SessionTag.Get() != "job-4711" {
		t.Errorf("WithDefaults does not take 7 ranks and the tag of the launcher: %+v", other)
	}
	if next := cfg.WithDefaults(config.Ranks{}); next.SessionTag.Get() != b.SessionTag.Get() {
		t.Errorf("session tag %q of a second call, want %q", next.SessionTag.Get(), b.SessionTag.Get())
	}
	given := config.Training{PerfTags: config.Value([]string{"x"}), SaveCheckpointStrategy: config.CheckpointAsync}
	whole := config.Base{ApplicationName: "app", Training: &given}
	if got := *whole.WithDefaults(config.Ranks{}).Training; tags(got) != "[x] true" || got.SaveCheckpointStrategy != config.CheckpointAsync {
		t.Errorf("WithDefaults changed given fields: %+v", got)
	}
}

// one-logger's guides log throughput without a target.
func TestThroughputNeedsNoTarget(t *testing.T) {
	cfg := config.Config{Base: config.Base{ApplicationName: "a", Training: &config.Training{
		PerfTag: config.Value("p"), GlobalBatchSize: config.Value(32), FlopsPerSample: config.Value(100), IsLogThroughputEnabled: config.Value(true),
	}}}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
}

// Ranks must not each generate a tag, because their tags would differ.
func TestRanksHaveOneSessionTag(t *testing.T) {
	b := config.Base{ApplicationName: "a", WorldSize: config.Value(2)}
	for range 2 {
		if got := b.WithDefaults(config.Ranks{}); got.SessionTag.Get() != "a" {
			t.Errorf("session tag %v, want a", got.SessionTag)
		}
	}
}

func tags(t config.Training) string {
	list, isList := settings.Tags(&t)
	return fmt.Sprint(list, isList)
}

func TestDisabledRankIsQuietByDefault(t *testing.T) {
	off := config.Value(false)
	for _, c := range []struct {
		name     string
		base     config.Base
		strategy config.ErrorStrategy
		level    string
	}{
		{"enabled", config.Base{}, config.PropagateErrors, "INFO"},
		{"disabled", config.Base{EnableForCurrentRank: off}, config.DisableQuietly, "CRITICAL"},
		{"disabled by function", config.Base{EnableForCurrentRank: config.Func(func() bool { return false })}, config.DisableQuietly, "CRITICAL"},
		{"disabled with strategy", config.Base{EnableForCurrentRank: off, ErrorStrategy: config.PropagateErrors}, config.PropagateErrors, "INFO"},
		{"disabled with level", config.Base{EnableForCurrentRank: off, Logger: config.Logger{Level: "DEBUG"}}, config.DisableQuietly, "DEBUG"},
	} {
		got := c.base.WithDefaults(config.Ranks{})
		if got.ErrorStrategy != c.strategy || got.Logger.Level != c.level {
			t.Errorf("%s: strategy %s, level %s; want %s, %s", c.name, got.ErrorStrategy, got.Logger.Level, c.strategy, c.level)
		}
	}
}

func TestLogLevelsRise(t *testing.T) {
	level := func(name string) slog.Level { return settings.Level(&config.Logger{Level: name}) }
	levels := []string{"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}
	if !slices.IsSortedFunc(levels, func(a, b string) int { return int(level(a) - level(b)) }) {
		t.Error("the levels are not in ascending order")
	}
	if level("") != slog.LevelInfo || level("CRITICAL") <= slog.LevelError {
		t.Errorf("levels %v (unset) and %v (critical), want INFO and above ERROR", level(""), level("CRITICAL"))
	}
}

func TestExportRules(t *testing.T) {
	const empty = "span_names should be a non-empty list when mode is "
	for _, c := range []struct {
		name   string
		export config.Export
		want   string // "" if accepted
	}{
		{"zero", config.Export{}, ""},
		{"all", config.Export{Mode: config.ExportAll}, ""},
		{"all with empty list", config.Export{Mode: config.ExportAll, SpanNames: []string{}}, ""},
		{"all with names", config.Export{Mode: config.ExportAll, SpanNames: []string{"x"}}, "should be empty"},
		{"default blacklist", config.Export{Mode: config.Blacklist}, ""},
		{"own blacklist without mode", config.Export{SpanNames: []string{"my span"}}, ""},
		{"empty blacklist", config.Export{Mode: config.Blacklist, SpanNames: []string{}}, empty + "BLACKLIST_SPANS"},
		{"whitelist", config.Export{Mode: config.Whitelist, SpanNames: []string{"application"}}, ""},
		{"empty whitelist", config.Export{Mode: config.Whitelist, SpanNames: []string{}}, empty + "WHITELIST_SPANS"},
		{"missing whitelist", config.Export{Mode: config.Whitelist}, empty + "WHITELIST_SPANS"},
		{"empty name", config.Export{Mode: config.Whitelist, SpanNames: []string{""}}, "item 0 must not be empty"},
		{"unknown mode", config.Export{Mode: "WHITELIST"}, `did you mean "WHITELIST_SPANS"?`},
	} {
		err := settings.Validate(&config.Config{Export: c.export}, "export.", "export.")
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q (empty: none)", c.name, err, c.want)
		}
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	b := config.Base{
		WorldSize: config.Value(-2), ErrorStrategy: "loud", Logger: config.Logger{Level: "info"},
		CustomMetadata: config.Metadata{{Key: "", Value: 1}, {Key: "a", Value: 1}, {Key: "a", Value: 2}},
		Training: &config.Training{
			PerfTag: config.Value("p"), PerfTags: config.Value([]string{"q"}),
			GlobalBatchSize:        config.Func(func() int { panic("no cluster") }),
			IsLogThroughputEnabled: config.Value(true), LogEveryNTrainIterations: config.Value(-1), SaveCheckpointStrategy: "later",
		},
	}
	err := b.Validate()
	var invalid *config.ValidationError
	if !errors.As(err, &invalid) {
		t.Fatal(err)
	}
	var fields []string
	for _, p := range invalid.Problems {
		fields = append(fields, p.Field)
	}
	want := []string{
		"application_name", "world_size", "custom_metadata", "custom_metadata.a", "error_strategy", "logger.level",
		"training.global_batch_size", "training.log_every_n_train_iterations", "training.save_checkpoint_strategy", "training.perf_tags", "training.flops_per_sample",
	}
	if !slices.Equal(fields, want) {
		t.Errorf("fields = %q, want %q", fields, want)
	}
	if got := strings.Count(err.Error(), "\n"); got != len(want) {
		t.Errorf("%d lines, want %d, one for each problem", got, len(want))
	}
	for _, part := range []string{"(got -2)", `(got "loud")`, `did you mean "INFO"?`, `panicked (got "no cluster")`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("want %s in\n%v", part, err)
		}
	}
}

func TestOutputRules(t *testing.T) {
	var cfg config.Config
	cfg.Outputs.File = config.File{Enabled: config.Value(true)}
	cfg.Outputs.Trace = config.Trace{Path: "trace-{ranks}", BufferSize: -1, WriteInterval: -1, Dialect: "v3", DataDirs: []string{""}}
	cfg.Outputs.OTLP = config.OTLP{
		Protocol: "http/json", Endpoint: "localhost:4318", TracesEndpoint: "ftp://user:hunter2@host",
		Headers: config.Headers{"api key": "hunter2", "x": "hunter2\n"}, Timeout: -1, Compression: "zstd",
		ClientKey: "k", QueueSize: 10, BatchSize: 20, BatchDelay: -1,
		LogsEndpoint: "c", MetricsEndpoint: "c", MetricsInterval: -1, SpillDir: "a\x00b", SpillBytes: -1, TraceSplit: "per-step", TraceWindow: -1, TraceBudget: 5,
	}
	cfg.Outputs.Prometheus.Address = "0.0.0.0:9464"
	cfg.OTel.ResourceAttributes = config.Pairs("", "x", "list", []any{1})
	cfg.Ranks.Rank = config.Value(-1)
	cfg.Logger.InfoPath, cfg.Logger.ErrorPath = "info-{rank2}", "error-{RANK}"
	err := cfg.Validate()
	if err == nil {
		t.Fatal("the configuration was accepted, want an error")
	}
	for _, want := range []string{
		"outputs.file.path: field required", "logger.info_path: unknown placeholder {rank2}", "logger.error_path: unknown placeholder {RANK}", `unknown placeholder {ranks}; did you mean "{rank}"?`, "outputs.trace.dialect: must be 'v1', 'v2' or 'v22'", "outputs.trace.write_interval: must not be negative", "outputs.trace.buffer_size: must not be negative (got -1)",
		"outputs.trace.data_dirs: item 0 must not be empty", "outputs.otlp.protocol: must be 'grpc' or 'http/protobuf'", "outputs.otlp.endpoint: must be a URL",
		`outputs.otlp.traces_endpoint: must be a URL such as "http://localhost:4318" (got "ftp://REDACTED@host")`, "outputs.otlp.headers: a name is empty",
		"outputs.otlp.headers.x: the value contains a line break", "outputs.otlp.timeout", "outputs.otlp.compression: must be 'gzip' or 'none'", "outputs.otlp.client_certificate: must be set together",
		"outputs.otlp.batch_size: must not be larger than queue_size, 10 (got 20)", "outputs.otlp.batch_delay",
		"outputs.otlp.logs_endpoint", "outputs.otlp.metrics_endpoint", "outputs.otlp.metrics_interval", "outputs.otlp.spill_dir", "outputs.otlp.spill_bytes: must not be negative (got -1)",
		"outputs.otlp.trace_split: must be 'per-attempt', 'per-epoch' or 'per-window'", "outputs.otlp.trace_window: must not be negative", "outputs.otlp.trace_budget: must be at least 32",
		`outputs.prometheus.address: other machines can reach it: write "127.0.0.1:9464", or set allow_remote`, "otel.resource_attributes: keys must be", "otel.resource_attributes.list", "rank: must not be negative",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error shows a secret:\n%v", err)
	}
}

func TestOTLPAddresses(t *testing.T) {
	for _, c := range []struct {
		otlp  config.OTLP
		url   string
		valid bool
	}{
		{config.OTLP{}, "http://localhost:4318/v1/traces", true},
		{config.OTLP{Protocol: config.OTLPGRPC}, "http://localhost:4317", true},
		{config.OTLP{Endpoint: "https://c:1/base/"}, "https://c:1/base/v1/traces", true},
		{config.OTLP{Endpoint: "https://c:1", Protocol: config.OTLPGRPC}, "https://c:1", true},
		{config.OTLP{Endpoint: "c:4317", Protocol: config.OTLPGRPC}, "c:4317", true},
		{config.OTLP{Endpoint: "c:4317"}, "", false},
		{config.OTLP{Endpoint: "http://c", TracesEndpoint: "http://t/x"}, "http://t/x", true},
	} {
		if got := c.otlp.TracesURL(); c.valid && got != c.url {
			t.Errorf("%+v: %s, want %s", c.otlp, got, c.url)
		}
		outputs := config.Config{Outputs: config.Outputs{OTLP: c.otlp}}
		if err := outputs.Validate(); strings.Contains(err.Error(), "endpoint") == c.valid {
			t.Errorf("%+v: %v, want an error of the endpoint: %v", c.otlp, err, !c.valid)
		}
	}
}

func TestAddressesOfLogsAndMetrics(t *testing.T) {
	for _, c := range []struct {
		name          string
		otlp          config.OTLP
		logs, metrics string // empty if off
	}{
		{"default", config.OTLP{}, "http://localhost:4318/v1/logs", "http://localhost:4318/v1/metrics"},
		{"base", config.OTLP{Endpoint: "https://c:1/base/", TracesEndpoint: "http://t/x"}, "https://c:1/base/v1/logs", "https://c:1/base/v1/metrics"},
		{"grpc", config.OTLP{Protocol: config.OTLPGRPC, Endpoint: "c:4317"}, "c:4317", "c:4317"},
		{"beside the traces", config.OTLP{TracesEndpoint: "http://t/v1/traces"}, "http://t/v1/logs", "http://t/v1/metrics"},
		{"beside the traces by grpc", config.OTLP{Protocol: config.OTLPGRPC, TracesEndpoint: "t:1"}, "t:1", "t:1"},
		{"traces somewhere", config.OTLP{TracesEndpoint: "http://t/x"}, "", ""},
		{"own", config.OTLP{TracesEndpoint: "http://t/x", LogsEndpoint: "http://l", MetricsEndpoint: "http://m/y"}, "http://l", "http://m/y"},
		{"off", config.OTLP{Endpoint: "http://c", Logs: config.Value(false), Metrics: config.Value(false)}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if on := settings.LogsActive(&c.otlp); on != (c.logs != "") || on && c.otlp.LogsURL() != c.logs {
				t.Errorf("logs on %v to %q, want %q", on, c.otlp.LogsURL(), c.logs)
			}
			if on := settings.MetricsActive(&c.otlp); on != (c.metrics != "") || on && c.otlp.MetricsURL() != c.metrics {
				t.Errorf("metrics on %v to %q, want %q", on, c.otlp.MetricsURL(), c.metrics)
			}
		})
	}
	cfg := config.Config{Outputs: config.Outputs{OTLP: config.OTLP{TracesEndpoint: "http://t/x", Logs: config.Value(true), Metrics: config.Value(true)}}}
	err := cfg.Validate()
	for _, want := range []string{"outputs.otlp.logs_endpoint: field required", "outputs.otlp.metrics_endpoint: field required"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in\n%v", want, err)
		}
	}
}

func TestPrometheusAddresses(t *testing.T) {
	for _, c := range []struct {
		address       string
		remote, valid bool
	}{
		{"", false, true}, {"127.0.0.1:9464", false, true}, {"127.9.9.9:0", false, true}, {"[::1]:1", false, true}, {"localhost:80", false, true},
		{":9464", false, false}, {"0.0.0.0:1", false, false}, {"[::]:1", false, false}, {"10.0.0.1:1", false, false}, {"host:1", false, false},
		{":9464", true, true}, {"10.0.0.1:1", true, true},
		{"127.0.0.1", false, false}, {"127.0.0.1:", false, false}, {"127.0.0.1:70000", true, false}, {"9464", true, false},
	} {
		cfg := config.Config{Outputs: config.Outputs{Prometheus: config.Prometheus{Address: c.address, AllowRemote: config.Value(c.remote)}}}
		if err := cfg.Validate(); strings.Contains(err.Error(), "prometheus") == c.valid {
			t.Errorf("%q, remote %v: %v, want an error of prometheus: %v", c.address, c.remote, err, !c.valid)
		}
		if on := c.address != ""; settings.PrometheusActive(&cfg) != on {
			t.Errorf("%q: active is %v, want %v", c.address, !on, on)
		}
		cfg.OTel.SDKDisabled = config.Value(true)
		if settings.PrometheusActive(&cfg) {
			t.Error("Prometheus is on although OpenTelemetry is off, want off")
		}
	}
}

func TestWhichOutputsAreOn(t *testing.T) {
	cfg := config.Config{Outputs: config.Outputs{OTLP: config.OTLP{Endpoint: "http://c"}, File: config.File{Path: "f"}, Trace: config.Trace{Path: "t", Enabled: config.Value(false)}}}
	if !settings.OTLPActive(&cfg) || !settings.FileActive(&cfg) || settings.TraceActive(&cfg) {
		t.Error("got the wrong state: a path enables an output, enabled: false disables it")
	}
	cfg.OTel.SDKDisabled = config.Value(true)
	if settings.OTLPActive(&cfg) {
		t.Error("OTLP is on although OpenTelemetry is off, want off")
	}
}

func TestTheServiceNameIsTheApplicationsWhereNoOtherIsGiven(t *testing.T) {
	for want, env := range map[string][]string{
		"svc":  {"OTEL_SERVICE_NAME=svc", "OTEL_RESOURCE_ATTRIBUTES=service.name=attr"},
		"attr": {"OTEL_RESOURCE_ATTRIBUTES=service.name=attr"},
		"app":  {"OTEL_SERVICE_NAME=svc", "TRAINSPAN_APPLICATION_NAME=app"},
	} {
		cfg := mustLoad(t, config.LoadOptions{LookupEnv: config.Environ(env)})
		if cfg.ApplicationName != want {
			t.Errorf("%v: %q, want %q", env, cfg.ApplicationName, want)
		}
	}
}

func TestHeadersNeverShowTheirValues(t *testing.T) {
	otlp := config.OTLP{Headers: config.Headers{"api-key": "hunter2", "b": "hunter2"}}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "otlp", otlp, "headers", otlp.Headers)
	asJSON, err := json.Marshal(otlp.Headers)
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Marshal(map[string]any{"headers": otlp.Headers})
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{log.String(), string(asJSON), string(asYAML)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		texts = append(texts, fmt.Sprintf(verb, otlp), fmt.Sprintf(verb, otlp.Headers), fmt.Sprintf(verb, &otlp))
	}
	for _, s := range texts {
		if strings.Contains(s, "hunter2") || strings.Contains(strings.ToLower(s), "68756e74657232") {
			t.Errorf("the header value is shown in %s", s)
		}
	}
	if got := fmt.Sprint(otlp.Headers); got != "{api-key=REDACTED, b=REDACTED}" {
		t.Errorf("headers are printed as %q, want every value REDACTED", got)
	}
}

func TestCloneSharesNothing(t *testing.T) {
	cfg := decodeFile(t, "testdata/job.yaml")
	before := fmt.Sprint(flatten(&cfg))
	c := config.Clone(&cfg)
	c.CustomMetadata[0].Value = "changed"
	c.Training.CustomMetadata[0].Value = "changed"
	c.Training.GlobalBatchSize = config.Value(1)
	c.Export.SpanNames[0] = "changed"
	c.Outputs.Trace.DataDirs[0] = "changed"
	c.Outputs.OTLP.Headers["api-key"] = "changed"
	c.OTel.ResourceAttributes[0].Value = "changed"
	if after := fmt.Sprint(flatten(&cfg)); after != before {
		t.Errorf("the original changed:\n%s\nwant\n%s", after, before)
	}
}
