package settings_test

import (
	"cmp"
	"log/slog"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/record/settings"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
	"go.opentelemetry.io/otel/sdk/resource"
)

// TestActive checks that an output is enabled if it has a destination and is not
// disabled.
func TestActive(t *testing.T) {
	yes, no := config.Value(true), config.Value(false)
	for name, tc := range map[string]struct {
		c                             config.Config
		file, trace, otlp, prometheus bool
	}{
		"nothing": {},
		"places": {
			c: config.Config{Outputs: config.Outputs{File: config.File{Path: "f"}, Trace: config.Trace{Path: "t"}, OTLP: config.OTLP{Endpoint: "http://a"},
				Prometheus: config.Prometheus{Address: "localhost:1"}}},
			file: true, trace: true, otlp: true, prometheus: true,
		},
		"switched on without a place": {
			c:    config.Config{Outputs: config.Outputs{File: config.File{Enabled: yes}, Trace: config.Trace{Enabled: yes}, OTLP: config.OTLP{Enabled: yes}}},
			file: true, trace: true, otlp: true,
		},
		"places that are switched off": {
			c: config.Config{Outputs: config.Outputs{File: config.File{Path: "f", Enabled: no}, Trace: config.Trace{Path: "t", Enabled: no},
				OTLP: config.OTLP{TracesEndpoint: "http://a", Enabled: no}}},
		},
		"OpenTelemetry is off": {
			c: config.Config{Outputs: config.Outputs{File: config.File{Path: "f"}, OTLP: config.OTLP{TracesEndpoint: "http://a", Enabled: yes},
				Prometheus: config.Prometheus{Address: "localhost:1"}}, OTel: config.OTel{SDKDisabled: yes}},
			file: true,
		},
	} {
		got := []bool{settings.FileActive(&tc.c), settings.TraceActive(&tc.c), settings.OTLPActive(&tc.c), settings.PrometheusActive(&tc.c)}
		if want := []bool{tc.file, tc.trace, tc.otlp, tc.prometheus}; !slices.Equal(got, want) {
			t.Errorf("%s: file, trace, OTLP, Prometheus are %v, want %v", name, got, want)
		}
	}
}

// TestSignals checks that logs and metrics are sent with spans, unless they are disabled
// or have no URL.
func TestSignals(t *testing.T) {
	no := config.Value(false)
	for name, tc := range map[string]struct {
		o             config.OTLP
		logs, metrics bool
	}{
		"one endpoint for all": {config.OTLP{Endpoint: "http://a"}, true, true},
		"beside the spans":     {config.OTLP{TracesEndpoint: "http://a/v1/traces"}, true, true},
		"no place for them":    {config.OTLP{TracesEndpoint: "http://a/spans"}, false, false},
		"switched off":         {config.OTLP{Endpoint: "http://a", Logs: no, Metrics: no}, false, false},
	} {
		if logs, metrics := settings.LogsActive(&tc.o), settings.MetricsActive(&tc.o); logs != tc.logs || metrics != tc.metrics {
			t.Errorf("%s: logs %v, metrics %v; want %v, %v", name, logs, metrics, tc.logs, tc.metrics)
		}
	}
}

func TestTraceRequested(t *testing.T) {
	for value, want := range map[string]bool{"": false, "0": false, "1": true, "yes": true, "nonsense": false} {
		if got := settings.TraceRequested(func(string) (string, bool) { return value, value != "" }); got != want {
			t.Errorf("DFTRACER_ENABLE=%s: %v, want %v", value, got, want)
		}
	}
}

func TestLevel(t *testing.T) {
	for level, want := range map[string]slog.Level{
		"": slog.LevelInfo, "DEBUG": slog.LevelDebug, "INFO": slog.LevelInfo, "WARNING": slog.LevelWarn, "ERROR": slog.LevelError, "CRITICAL": slog.LevelError + 4, "?": slog.LevelInfo,
	} {
		if got := settings.Level(&config.Logger{Level: level}); got != want {
			t.Errorf("%q is %v, want %v", level, got, want)
		}
	}
}

func TestTags(t *testing.T) {
	list := []string{"a", "b"}
	for name, tc := range map[string]struct {
		of     config.Training
		want   []string
		isList bool
	}{
		"none": {},
		"one":  {config.Training{PerfTag: config.Value("a")}, []string{"a"}, false},
		"list": {config.Training{PerfTags: config.Value(list), PerfTag: config.Value("c")}, []string{"a", "b"}, true},
	} {
		got, isList := settings.Tags(&tc.of)
		if !slices.Equal(got, tc.want) || isList != tc.isList {
			t.Errorf("%s: %v, list %v; want %v, %v", name, got, isList, tc.want, tc.isList)
		}
		if len(got) > 0 {
			got[0] = "changed"
		}
	}
	if list[0] != "a" {
		t.Error("the tags share memory with the caller's")
	}
}

// TestDefaults checks that set fields stay and unset fields get their defaults.
func TestDefaults(t *testing.T) {
	given := config.Trace{Path: "p", Dialect: config.TraceV1, BufferSize: 1, WriteInterval: 2}
	if got := settings.Trace(given); !reflect.DeepEqual(got, given) {
		t.Errorf("Trace() of given settings = %+v, want %+v", got, given)
	}
	want := config.Trace{Path: "./trace", Dialect: config.TraceV2, BufferSize: 1 << 20, WriteInterval: fswrite.FlushInterval}
	if got := settings.Trace(config.Trace{}); !reflect.DeepEqual(got, want) {
		t.Errorf("Trace() of no settings = %+v, want %+v", got, want)
	}
	for _, given := range []config.OTLP{{}, {Protocol: config.OTLPGRPC, Timeout: 1, Compression: "gzip", MetricsInterval: 2}} {
		o := settings.OTLP(given)
		want := []any{config.OTLPHTTP, 10 * time.Second, "none", time.Minute}
		if given.Protocol != "" {
			want = []any{config.OTLPGRPC, time.Duration(1), "gzip", time.Duration(2)}
		}
		if got := []any{o.Protocol, o.Timeout, o.Compression, o.MetricsInterval}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// TestIdentity checks the precedence of the identity: the program, its launcher, then
// the configuration.
func TestIdentity(t *testing.T) {
	base := config.Base{ApplicationName: "app", SessionTag: config.Value("tag"), WorldSize: config.Value(8)}
	launcher := config.Ranks{Rank: config.Value(3), LocalRank: config.Value(1), Attempt: config.Value(2), Job: "job"}
	id := settings.Identity(outputs.Identity{}, &base, launcher)
	if id.Host == "" || id.PID == 0 || id.Version == "" {
		t.Errorf("identity of the system %+v, want a host, a process and a version", id)
	}
	if id.Rank.Get() != 3 || !id.RankKnown || id.LocalRank.Get() != 1 || id.Attempt.Get() != 2 || id.Job != "job" || id.Run != "job" || id.WorldSize.Get() != 8 || id.SessionTag != "tag" || id.ApplicationName != "app" {
		t.Errorf("identity of the launcher and the configuration: %+v, want rank 3 of 8, local rank 1, attempt 2 of job, tag, app", id)
	}
	own := outputs.Identity{Host: "h", PID: 7, Version: "v", Ranks: config.Ranks{Rank: config.Value(5), LocalRank: config.Value(0), Attempt: config.Value(9), Job: "own", Run: "run", WorldSize: config.Value(16)}}
	want := own
	want.RankKnown, want.SessionTag, want.ApplicationName = true, "tag", "app"
	if got := settings.Identity(own, &base, launcher); !reflect.DeepEqual(got, want) {
		t.Errorf("of the program: %+v, want %+v", got, want)
	}
	if id := settings.Identity(outputs.Identity{}, &base, config.Ranks{}); id.RankKnown || id.Rank.Get() != 0 || !id.Rank.IsSet() || id.LocalRank.IsSet() || id.Attempt.Get() != 0 {
		t.Errorf("identity without a launcher %+v, want an unknown rank 0, no local rank, no attempt", id)
	}
}

// TestRanks checks that, if the program sets one of rank, local rank and world size, all
// three come from the program, and errors about the launcher's values are dropped.
func TestRanks(t *testing.T) {
	launched := map[string]string{"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "TRAINSPAN_JOB": "job", "TRAINSPAN_ATTEMPT": "4"}
	broken := map[string]string{"RANK": "x", "TRAINSPAN_ATTEMPT": "y"}
	for name, tc := range map[string]struct {
		given    config.Ranks
		env      map[string]string
		rank     config.Var[int]
		size     config.Var[int]
		attempt  config.Var[int]
		job      string
		problems int
	}{
		"of the launcher":    {env: launched, rank: config.Value(3), size: config.Value(8), attempt: config.Value(4), job: "job"},
		"of the program":     {given: config.Ranks{Rank: config.Value(0)}, env: launched, rank: config.Value(0), attempt: config.Value(4), job: "job"},
		"attempt and job":    {given: config.Ranks{Attempt: config.Value(1), Run: "run"}, env: launched, rank: config.Value(3), size: config.Value(8), attempt: config.Value(1), job: "run"},
		"broken":             {env: broken, problems: 2},
		"broken, and unused": {given: config.Ranks{WorldSize: config.Value(2)}, env: broken, size: config.Value(2), problems: 1},
	} {
		got, err := settings.Ranks(tc.given, func(name string) (string, bool) { v, ok := tc.env[name]; return v, ok })
		var problems []config.Problem
		if bad, ok := err.(*config.ValidationError); ok { //nolint:errorlint // it comes bare
			problems = bad.Problems
		}
		if got.Rank.Or(-1) != tc.rank.Or(-1) || got.WorldSize.Or(-1) != tc.size.Or(-1) || got.Attempt.Or(-1) != tc.attempt.Or(-1) || got.Job != tc.job || len(problems) != tc.problems {
			t.Errorf("%s: %+v, error %v; want rank %v of %v, attempt %v, job %q, %d problems", name, got, err, tc.rank, tc.size, tc.attempt, tc.job, tc.problems)
		}
	}
}

// TestSentName checks under which name spans of a trace are sent, and which are sent.
func TestSentName(t *testing.T) {
	list := []string{"compute.forward", spans.TrainingLoop, "read"}
	for _, tc := range []struct {
		mode           string
		category, name string
		sent           string
		ok             bool
	}{
		{"", "pipeline", "train", spans.TrainingLoop, true},
		{"", "compute", "forward", spans.ModelForward, false}, // in the default blacklist
		{"", "telemetry", "mine", "mine", true},
		{"", "data", "read", "data.read", false},
		{config.ExportAll, "data", "read", "data.read", true},
		{config.Whitelist, "pipeline", "train", spans.TrainingLoop, true},
		{config.Whitelist, "data", "read", "data.read", true},
		{config.Whitelist, "data", "write", "data.write", false},
		{config.Blacklist, "data", "read", "data.read", false},
		{config.Blacklist, "data", "write", "data.write", true},
	} {
		e := config.Export{Mode: tc.mode}
		if tc.mode == config.Whitelist || tc.mode == config.Blacklist {
			e.SpanNames = list
		}
		if sent, ok := settings.SentName(&e, tc.category, tc.name); sent != tc.sent || ok != tc.ok {
			t.Errorf("%s %s/%s is sent as %q: %v; want %q, %v", tc.mode, tc.category, tc.name, sent, ok, tc.sent, tc.ok)
		}
	}
}

// TestValidate checks that a section is validated independent of the others.
func TestValidate(t *testing.T) {
	c := config.Config{Outputs: config.Outputs{OTLP: config.OTLP{Timeout: -1}}}
	err, ok := settings.Validate(&c, "outputs.otlp.", "outputs.").(*config.ValidationError) //nolint:errorlint // it comes bare
	if !ok || len(err.Problems) != 1 || err.Problems[0].Field != "otlp.timeout" {
		t.Errorf("Validate() = %v, want one problem, of otlp.timeout", err)
	}
	if err := settings.Validate(&c, "outputs.file.", ""); err != nil {
		t.Error("another section:", err)
	}
}

// TestResourceOfTheEnvironment checks that a variable with an error in it is ignored as a
// whole, as config.Load ignores it, and reported.
func TestResourceOfTheEnvironment(t *testing.T) {
	for _, tc := range []struct{ attributes, name, wantName, wantTeam string }{
		{"service.name=foo,team=x", "", "foo", "x"},
		{"service.name=foo,team=a%20b", "bar", "bar", "a b"},
		{"service.name=foo,team=x,oops", "", "app", ""},
		{"service.name=foo,team=x,team=y", "bar", "bar", ""},
	} {
		t.Setenv("OTEL_RESOURCE_ATTRIBUTES", tc.attributes)
		t.Setenv("OTEL_SERVICE_NAME", tc.name)
		cfg, err := config.Load(config.LoadOptions{Partial: true})
		if err != nil {
			t.Fatal(err)
		}
		if cfg.ApplicationName == "" {
			cfg.ApplicationName = "app"
		}
		id := outputs.Identity{ApplicationName: cfg.ApplicationName}
		_, err = settings.Resource(t.Context(), id, nil, nil)
		if ignored := tc.wantTeam == ""; (err != nil) != ignored || (len(cfg.Warnings) > 0) != ignored {
			t.Errorf("%s: error %v, warnings %v; want them: %v", tc.attributes, err, cfg.Warnings, ignored)
		}
		r, err := settings.Resource(t.Context(), id, nil, cmp.Or(settings.OTelResource(&cfg.OTel), resource.Empty()))
		if err != nil {
			t.Errorf("%s: error %v beside a configuration, which has warned; want none", tc.attributes, err)
		}
		name, _ := r.Set().Value("service.name")
		team, _ := r.Set().Value("team")
		if name.AsString() != tc.wantName || team.AsString() != tc.wantTeam || cfg.ApplicationName != tc.wantName {
			t.Errorf("%s: service.name %q, application %q, team %q; want %q, the same, %q",
				tc.attributes, name.AsString(), cfg.ApplicationName, team.AsString(), tc.wantName, tc.wantTeam)
		}
	}
}
