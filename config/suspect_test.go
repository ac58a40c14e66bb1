package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/config"
)

// A typo in a name or a value is reported, with a suggestion.
func TestSuspiciousVariablesAreWarnedOf(t *testing.T) {
	for name, value := range map[string]string{
		"TRAINSPAN_APPLICATION_NAME": "a", "TRAINSPAN_SESSION_TAGS": "x", "DFTRACER_LOGFILE": "x", "DFTRACER_DISABLE_IO": "1",
		"OTEL_TRACES_EXPORTER": "otpl, console", "OTEL_METRICS_EXPORTER": "prometheus,none", "OTEL_LOGS_EXPORTER": "otlp",
		"TRAINSPAN_JOB": "x", "TRAINSPAN_ATTEMPT": "0",
	} {
		t.Setenv(name, value)
	}
	cfg, err := config.Load(config.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`TRAINSPAN_SESSION_TAGS: unknown variable, ignored; did you mean "TRAINSPAN_SESSION_TAG"?`,
		`DFTRACER_LOGFILE: unknown variable, ignored; did you mean "DFTRACER_LOG_FILE"?`,
		`OTEL_TRACES_EXPORTER: unknown exporter; did you mean "otlp"? (got "otpl")`,
		`OTEL_TRACES_EXPORTER: unsupported exporter; only "otlp" is available (got "console")`,
	}
	var lines []string
	for _, w := range cfg.Warnings {
		lines = append(lines, w.String())
	}
	got := strings.Join(lines, "\n")
	for _, line := range want {
		if strings.Count(got, line) != 1 {
			t.Errorf("want the line %q once in\n%s", line, got)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("%d warnings, want %d:\n%s", len(lines), len(want), got)
	}
}

// Values of unknown variables are not shown.
func TestWarningsShowNoValueOfAnUnknownVariable(t *testing.T) {
	t.Setenv("TRAINSPAN_API_KEY", "hunter2")
	cfg, _ := config.Load(config.LoadOptions{Partial: true})
	if len(cfg.Warnings) != 1 || strings.Contains(cfg.Warnings[0].String(), "hunter2") {
		t.Errorf("warnings %v, want one without the value", cfg.Warnings)
	}
}

// Certificates of a file or of code without TLS are warned of; those of variables, which may
// be there for other programs, are not.
func TestCertificatesWithoutTLSAreWarnedOf(t *testing.T) {
	for _, tc := range []struct {
		name string
		env  []string
		code config.OTLP
		want int
	}{
		{"code", nil, config.OTLP{Endpoint: "http://h", Certificate: "ca.pem"}, 1},
		{"variable", []string{"OTEL_EXPORTER_OTLP_CERTIFICATE=ca.pem"}, config.OTLP{Endpoint: "http://h"}, 0},
		{"TLS", nil, config.OTLP{Endpoint: "https://h", Certificate: "ca.pem"}, 0},
		{"TLS for logs", nil, config.OTLP{Endpoint: "http://h", LogsEndpoint: "https://h", Certificate: "ca.pem"}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg, err := config.Load(config.LoadOptions{
				Partial: true, LookupEnv: config.Environ(tc.env), Code: config.Config{Outputs: config.Outputs{OTLP: tc.code}},
			})
			if err != nil || len(cfg.Warnings) != tc.want {
				t.Errorf("Load: warnings %v, error %v; want %d warnings", cfg.Warnings, err, tc.want)
			}
		})
	}
}

// An unusable value of an OpenTelemetry variable counts as not set, with one warning, so the next
// source is used.
func TestUnusableValuesOfOpenTelemetryAreIgnored(t *testing.T) {
	path := write(t, "job.yaml", "application_name: a\noutputs: {otlp: {compression: gzip}}\n")
	cfg, err := config.Load(config.LoadOptions{Path: path, LookupEnv: config.Environ([]string{
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/json", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_COMPRESSION=zstd",
		"OTEL_EXPORTER_OTLP_LOGS_TIMEOUT=5s", "OTEL_SDK_DISABLED=perhaps",
	})})
	if err != nil {
		t.Fatal(err)
	}
	if o := cfg.Outputs.OTLP; o.Protocol != "grpc" || o.Compression != "gzip" || cfg.OTel.SDKDisabled.IsSet() {
		t.Errorf("protocol %q, compression %q, disabled %v; want grpc, gzip, unset", o.Protocol, o.Compression, cfg.OTel.SDKDisabled)
	}
	var names []string
	for _, w := range cfg.Warnings {
		names = append(names, w.Where)
	}
	slices.Sort(names)
	want := []string{"OTEL_EXPORTER_OTLP_COMPRESSION", "OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_SDK_DISABLED"}
	if !slices.Equal(names, want) {
		t.Errorf("warnings of %q, want of %q", names, want)
	}
}

// A sampler in the environment has no effect, which matters if spans are sent.
func TestSamplersAreWarnedOf(t *testing.T) {
	const send = "OTEL_EXPORTER_OTLP_ENDPOINT=http://h"
	for _, tc := range []struct {
		env  []string
		want int
	}{
		{[]string{send, "OTEL_TRACES_SAMPLER=always_off"}, 1},
		{[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://h/v1/traces", "OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=0.01"}, 1},
		{[]string{send, "OTEL_TRACES_SAMPLER=parentbased_always_on"}, 0},
		{[]string{send, "OTEL_TRACES_EXPORTER=none", "OTEL_TRACES_SAMPLER=always_off"}, 0},
		{[]string{send, "OTEL_SDK_DISABLED=true", "OTEL_TRACES_SAMPLER=always_off"}, 0},
		{[]string{"OTEL_TRACES_SAMPLER=always_off"}, 0},
	} {
		cfg, err := config.Load(config.LoadOptions{Partial: true, LookupEnv: config.Environ(tc.env)})
		if err != nil || len(cfg.Warnings) != tc.want {
			t.Errorf("%q: warnings %v, error %v; want %d warnings", tc.env, cfg.Warnings, err, tc.want)
		}
	}
}
