package settings

import (
	"cmp"
	"log/slog"
	"slices"
	"time"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
)

// FileActive reports whether the JSON-lines file is enabled.
func FileActive(c *config.Config) bool { return c.Outputs.File.Enabled.Or(c.Outputs.File.Path != "") }

// TraceActive reports whether the trace file is enabled.
func TraceActive(c *config.Config) bool {
	return c.Outputs.Trace.Enabled.Or(c.Outputs.Trace.Path != "")
}

// OTLPActive reports whether spans are sent by OTLP: the output is enabled and
// OpenTelemetry is not disabled as a whole.
func OTLPActive(c *config.Config) bool {
	o := &c.Outputs.OTLP
	return o.Enabled.Or(o.Endpoint != "" || o.TracesEndpoint != "") && !c.OTel.SDKDisabled.Or(false)
}

// LogsActive reports whether the output, if active, sends logs.
func LogsActive(o *config.OTLP) bool { return o.Logs.Or(true) && o.LogsURL() != "" }

// MetricsActive reports whether the output, if active, sends metrics.
func MetricsActive(o *config.OTLP) bool { return o.Metrics.Or(true) && o.MetricsURL() != "" }

// PrometheusActive reports whether the Prometheus endpoint is enabled: it has an address
// and OpenTelemetry is not disabled as a whole.
func PrometheusActive(c *config.Config) bool {
	return c.Outputs.Prometheus.Address != "" && !c.OTel.SDKDisabled.Or(false)
}

// TraceRequested reports whether the environment variable DFTRACER_ENABLE enables trace
// files.
func TraceRequested(lookup func(string) (string, bool)) bool {
	cfg, _ := config.Load(config.LoadOptions{Partial: true, LookupEnv: func(name string) (string, bool) {
		if name != "DFTRACER_ENABLE" {
			return "", false
		}
		return lookup(name)
	}})
	return cfg.Outputs.Trace.Enabled.Or(false)
}

// Level returns the log level as a slog.Level. CRITICAL is four above slog.LevelError;
// an unset or unknown level is INFO.
func Level(l *config.Logger) slog.Level {
	switch l.Level {
	case "DEBUG":
		return slog.LevelDebug
	case "WARNING":
		return slog.LevelWarn
	case "ERROR":
		return slog.LevelError
	case "CRITICAL":
		return slog.LevelError + 4
	}
	return slog.LevelInfo
}

// Tags returns the current performance tags. isList distinguishes a list, even of one
// tag, from a single tag. The caller owns the slice.
func Tags(t *config.Training) (tags []string, isList bool) {
	if t.PerfTags.IsSet() {
		return slices.Clone(t.PerfTags.Get()), true
	}
	if t.PerfTag.IsSet() {
		return []string{t.PerfTag.Get()}, false
	}
	return nil, false
}

// Trace returns a copy of t with defaults for Path, Dialect, BufferSize and
// WriteInterval.
func Trace(t config.Trace) config.Trace {
	t.Path = cmp.Or(t.Path, "./trace")
	t.Dialect = cmp.Or(t.Dialect, config.TraceV2)
	t.BufferSize = cmp.Or(t.BufferSize, 1<<20)
	t.WriteInterval = cmp.Or(t.WriteInterval, fswrite.FlushInterval)
	return t
}

// OTLP returns a copy of o with defaults for Protocol, Timeout, Compression and
// MetricsInterval.
func OTLP(o config.OTLP) config.OTLP {
	o.Protocol = cmp.Or(o.Protocol, config.OTLPHTTP)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	o.Compression = cmp.Or(o.Compression, "none")
	o.MetricsInterval = cmp.Or(o.MetricsInterval, time.Minute)
	return o
}

// SentName returns the name under which a span of a DFTracer category and name is sent,
// and whether an export customization selects it. The name is that of the standard span,
// the span's own name in category "telemetry", and otherwise the name for scopes of
// package ai. The default customization selects the same spans as for a Go program:
// standard spans except those of single iterations, and the program's own spans, but no
// scopes. A list names spans as for Provider.ScopeKind.
func SentName(e *config.Export, category, name string) (string, bool) {
	own, plain := vocab.ScopeName(category, name), true
	if info, ok := vocab.ByEvent(category, name); ok {
		own = info.Name
	} else if category == customCategory {
		own = name
	} else {
		plain = false
	}
	if e.UsesDefaultNames() {
		return own, plain && !slices.Contains(spans.DefaultBlacklist(), own)
	}
	_, ok := ExportName(e, category, name)
	return own, ok
}

// customCategory is the trace category of spans that a program starts with
// Provider.StartSpan under a custom name.
const customCategory = "telemetry"

// ExportName returns the name by which a filter selects scopes of a DFTracer category
// and name, and whether it selects them.
func ExportName(e *config.Export, category, name string) (string, bool) {
	full := vocab.ScopeName(category, name)
	mode := e.Mode
	switch {
	case e.UsesDefaultNames():
		return "", false
	case mode == config.ExportAll:
		return full, true
	}
	candidates := []string{full, name}
	if info, ok := vocab.ByEvent(category, name); ok {
		candidates = append(candidates, info.Name)
	}
	for _, c := range candidates {
		if slices.Contains(e.SpanNames, c) {
			return c, mode == config.Whitelist
		}
	}
	return full, mode != config.Whitelist
}
