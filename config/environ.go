package config

import (
	"errors"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trainspan/trainspan/internal/platform/document"
	"github.com/trainspan/trainspan/internal/platform/environ"
	"github.com/trainspan/trainspan/internal/platform/identity"
)

// Environ returns a lookup function like os.LookupEnv for "NAME=value" strings,
// such as os.Environ returns. If a name is repeated, the last value counts.
func Environ(vars []string) func(name string) (string, bool) {
	m := make(map[string]string, len(vars))
	for _, v := range vars {
		if name, value, ok := strings.Cut(v, "="); ok {
			m[name] = value
		}
	}
	return func(name string) (string, bool) {
		v, ok := m[name]
		return v, ok
	}
}

// environment applies the variables that are set to the weaker sources.
func (l *loader) environment(lookup func(string) (string, bool)) {
	r := reader{all: allSettings()}
	ranks, bad := detectRanks(lookup)
	r.found = bad
	for _, s := range r.all {
		if s.as == "launcher" { // other variables decide which of them counts
			name, _ := s.variable(lookup)
			r.put(&s, reflect.ValueOf(ranks.WorldSize), name)
			continue
		}
		if s.as == "exporters" {
			name, text := s.variable(lookup)
			l.checkExporters(name, s.key, text)
		}
		l.cfg.Warnings = append(l.cfg.Warnings, r.fromVariable(&s, lookup)...)
	}
	l.lay(&r)
	l.cfg.Ranks.take(&ranks)
}

// fromVariable sets a setting from its strongest variable. OpenTelemetry's variables are for all
// programs of a job, so its specification asks for a warning about an unusable value, which then
// counts as not set.
func (r *reader) fromVariable(s *setting, lookup func(string) (string, bool)) (warnings []Problem) {
	for _, name := range s.env {
		text := textOf(lookup, name)
		if text == "" {
			continue
		}
		var one reader
		if v, err := s.fromText(text); err == nil {
			one.set(s, v, name)
		} else {
			one.unfit(s, text, name, err)
		}
		if s.ignorable() {
			for _, g := range one.given {
				one.found.checkTag(s, g.value)
			}
			for _, p := range one.found {
				p.Where, p.Message = name, p.Message+"; ignored"
				warnings = append(warnings, p)
			}
			if len(one.found) > 0 {
				continue
			}
		}
		r.given, r.found = append(r.given, one.given...), append(r.found, one.found...)
		break
	}
	return warnings
}

// ignorable reports whether an unusable value of the setting's variable counts as not set. Where
// data goes, and the secrets that go with it, are not replaced by something else.
func (s *setting) ignorable() bool {
	return strings.HasPrefix(s.env[0], "OTEL_") && s.field.Type != reflect.TypeFor[Headers]() && !strings.HasSuffix(s.key, "endpoint")
}

// variable returns the strongest variable of a setting that is set. An empty
// variable counts as not set.
func (s *setting) variable(lookup func(string) (string, bool)) (name, text string) {
	for _, name := range s.env {
		if text := textOf(lookup, name); text != "" {
			return name, text
		}
	}
	return "", ""
}

// fromText converts the text of a variable if its type alone does not define
// how. Errors have no values, because headers are set this way.
func (s *setting) fromText(text string) (any, error) {
	switch s.as {
	case "not":
		b, err := toBool(text)
		return !b, err
	case "exporters":
		return slices.ContainsFunc(strings.Split(text, ","), func(word string) bool { return strings.TrimSpace(word) == "otlp" }), nil
	case "ms":
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil || ms > int64(1<<63-1)/int64(time.Millisecond) || ms < 0 {
			return nil, errors.New("must be a number of milliseconds")
		}
		return time.Duration(ms) * time.Millisecond, nil
	case "dirs":
		return folders(text), nil
	}
	switch s.field.Type {
	case reflect.TypeFor[[]string](), reflect.TypeFor[Var[[]string]]():
		return splitList(text, ","), nil
	case reflect.TypeFor[Metadata](), reflect.TypeFor[Headers]():
		return pairs(text)
	}
	return text, nil
}

// folders parses DFTracer's list, whose word "all" becomes the empty list.
func folders(text string) []string {
	if text == "all" {
		return []string{}
	}
	return splitList(text, ":")
}

// exporters are OpenTelemetry's values for OTEL_TRACES_EXPORTER and similar
// variables; this library supports otlp, and prometheus for metrics.
var exporters = []string{"otlp", "none", "console", "logging", "prometheus", "zipkin", "jaeger"}

// checkExporters warns about exporters that this library does not have.
func (l *loader) checkExporters(name, key, text string) {
	for _, word := range splitList(text, ",") {
		switch {
		case word == "otlp", word == "none", word == "prometheus" && strings.HasSuffix(key, ".metrics"):
		case slices.Contains(exporters, word):
			l.warn(name, word, `unsupported exporter; only "otlp" is available`)
		default:
			l.warn(name, word, "unknown exporter"+didYouMean(word, exporters))
		}
	}
}

// otherVariables are read elsewhere, or only matter to DFTracer itself.
var otherVariables = []string{
	environ.File, dftracerFile, environ.Dir, environ.Run, environ.Ring, environ.Torch, environ.Only, environ.Without, environ.Verbose, environ.Inject, environ.Metrics,
	"DFTRACER_INIT", "DFTRACER_INIT_COUNT", "DFTRACER_GOTCHA_PRIORITY", "DFTRACER_LOG_LEVEL", "DFTRACER_TIME_METRIC",
	"DFTRACER_BIND_SIGNALS", "DFTRACER_ERROR", "DFTRACER_LIBUV_THREADS", "DFTRACER_ENABLE_AGGREGATION", "DFTRACER_AGGREGATION_TYPE", "DFTRACER_AGGREGATION_FILE",
	"DFTRACER_ENABLE_PAPI_TRACING", "DFTRACER_PAPI_EVENTS", "DFTRACER_PAPI_MULTIPLEX", "DFTRACER_PAPI_SAMPLE_INTERVAL_MS",
	"DFTRACER_DISABLE_VARIORUM_POWER",
}

// checkNames warns about variables of the process that look like ours and have
// no effect, because a misspelt name would be ignored silently.
func (l *loader) checkNames() {
	known := slices.Concat(otherVariables, identity.Variables())
	for _, s := range allSettings() {
		known = append(known, s.env...)
	}
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if ours := strings.HasPrefix(name, "TRAINSPAN_") || strings.HasPrefix(name, "DFTRACER_"); ours && !slices.Contains(known, name) {
			l.warn(name, nil, "unknown variable, ignored"+didYouMean(name, known))
		}
	}
}

// splitList splits a text and drops blank items.
func splitList(text, separator string) []string {
	items := []string{}
	for item := range strings.SplitSeq(text, separator) {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// pairs parses "key=value,key=value" with percent-encoded values, as in
// OpenTelemetry's variables.
func pairs(text string) (any, error) {
	m := document.Mapping{}
	for _, item := range splitList(text, ",") {
		key, value, ok := strings.Cut(item, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return nil, errors.New("must have the form key=value,key=value")
		}
		key, keyErr := url.PathUnescape(key)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if err != nil || keyErr != nil {
			return nil, errors.New("must be percent-encoded: a % is not followed by two hexadecimal digits")
		}
		m = append(m, document.Entry{Key: key, Value: value})
	}
	return m, nil
}
