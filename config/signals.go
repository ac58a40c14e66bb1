package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// otlpVariable is the prefix of the variables of [OTLP].
const otlpVariable = "OTEL_EXPORTER_OTLP_"

// signalValues holds the settings that variables set for one signal alone, such as
// OTEL_EXPORTER_OTLP_LOGS_HEADERS. It does not change.
type signalValues struct {
	traces, logs, metrics signalSettings
}

// signalSettings are the values for one signal at its own receiver, and at the receiver of the
// spans.
type signalSettings struct{ apart, beside *Config }

// ForLogs returns the settings for logs: those of OTEL_EXPORTER_OTLP_LOGS_* variables in place
// of those for traces. Values that the program has set since [Load] are for all signals.
func (o *OTLP) ForLogs() OTLP {
	if o.perSignal == nil {
		return *o
	}
	return o.replaced(&o.perSignal.logs, o.LogsEndpoint)
}

// ForMetrics is ForLogs for metrics.
func (o *OTLP) ForMetrics() OTLP {
	if o.perSignal == nil {
		return *o
	}
	return o.replaced(&o.perSignal.metrics, o.MetricsEndpoint)
}

// replaced replaces the values for traces by those for another signal.
func (o *OTLP) replaced(s *signalSettings, own string) OTLP {
	values := s.apart
	if own == "" && o.Endpoint == "" && o.TracesEndpoint != "" {
		values = s.beside
	}
	out := Config{Outputs: Outputs{OTLP: *o}}
	to, was, is := reflect.ValueOf(&out).Elem(), reflect.ValueOf(o.perSignal.traces.apart).Elem(), reflect.ValueOf(values).Elem()
	for _, s := range allSettings() {
		if !s.ofSignal() {
			continue
		}
		dst, before, now := s.in(to), s.in(was), s.in(is)
		if have, ok := dst.Interface().(Headers); ok {
			dst.Set(reflect.ValueOf(have.replaced(before.Interface().(Headers), now.Interface().(Headers))))
		} else if reflect.DeepEqual(dst.Interface(), before.Interface()) {
			dst.Set(now)
		}
	}
	return out.Outputs.OTLP
}

// replaced returns the headers with those of now in place of those of before.
func (h Headers) replaced(before, now Headers) Headers {
	out := maps.Clone(now)
	if out == nil {
		out = Headers{}
	}
	for name, value := range h {
		if was, ok := before[name]; !ok || was != value {
			out[name] = value
		}
	}
	return out
}

// ofSignal reports whether each signal has its own variable of the setting, apart from
// endpoints, which are settings of their own.
func (s *setting) ofSignal() bool {
	return len(s.env) == 2 && strings.HasPrefix(s.env[0], otlpVariable+"TRACES_")
}

// forSignal returns the setting with the variables of another signal, before those of traces if
// it is sent to the same receiver.
func (s *setting) forSignal(signal string, beside bool) setting {
	out := *s
	out.env = []string{strings.Replace(s.env[0], "TRACES", signal, 1), s.env[1]}
	if beside {
		out.env = slices.Insert(out.env, 1, s.env[0])
	}
	return out
}

// signals sets the values for single signals if there is a variable for them. Code has
// priority.
func (l *loader) signals(lookup func(string) (string, bool), code *Config) {
	used := code.Outputs.OTLP.perSignal != nil
	for _, s := range allSettings() {
		if !s.ofSignal() {
			continue
		}
		for _, signal := range []string{"TRACES", "LOGS", "METRICS"} {
			one := s.forSignal(signal, false)
			name, _ := one.variable(lookup)
			used = used || name == one.env[0]
		}
	}
	if !used {
		return
	}
	of := &l.cfg.Outputs.OTLP
	v := &signalValues{traces: signalSettings{apart: &Config{}}}
	traces := Clone(&l.cfg)
	v.traces.apart.Outputs.OTLP = traces.Outputs.OTLP
	for _, one := range []struct {
		name string
		to   *signalSettings
		code OTLP
	}{
		{"LOGS", &v.logs, code.Outputs.OTLP.ForLogs()}, {"METRICS", &v.metrics, code.Outputs.OTLP.ForMetrics()},
	} {
		last := *code
		last.Outputs.OTLP = one.code
		one.to.apart = l.forSignal(one.name, false, lookup, &last)
		one.to.beside = l.forSignal(one.name, true, lookup, &last)
	}
	of.perSignal = v
}

// forSignal returns the configuration for a signal.
func (l *loader) forSignal(signal string, beside bool, lookup func(string) (string, bool), code *Config) *Config {
	var r reader
	var ignored []Problem
	for _, s := range allSettings() {
		if !s.ofSignal() {
			continue
		}
		one := s.forSignal(signal, beside)
		ignored = append(ignored, r.fromVariable(&one, lookup)...)
	}
	ours := func(of []Problem) []Problem { // what concerns this signal alone
		return slices.DeleteFunc(of, func(p Problem) bool { return beside || !strings.HasPrefix(p.Where, otlpVariable+signal) })
	}
	l.cfg.Warnings, l.found = append(l.cfg.Warnings, ours(ignored)...), append(l.found, ours(r.found)...)
	out := &Config{}
	root := reflect.ValueOf(out).Elem()
	for i, layer := range l.layers {
		if i == len(l.layers)-1 { // the environment
			layer = append(slices.DeleteFunc(slices.Clone(layer), func(g given) bool { return g.ofSignal() }), r.given...)
		}
		apply(root, layer, nil)
	}
	apply(root, givenBy(code, func(string) string { return "" }), nil)
	return out
}
