package config

import (
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/environ"
	"github.com/trainspan/trainspan/internal/identity"
)

// exporters are the words of OTEL_TRACES_EXPORTER and its kind that are known
// to OpenTelemetry; of them this library has otlp, and prometheus for metrics.
var exporters = []string{"otlp", "none", "console", "logging", "prometheus", "zipkin", "jaeger"}

// checkExporters reports words that ask for what will not be there.
func checkExporters(p *problems, name, key, text string) {
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		switch {
		case word == "otlp", word == "none", word == "":
		case word == "prometheus" && strings.HasSuffix(key, ".metrics"):
		case slices.Contains(exporters, word):
			p.warn(name, word, "this library has no such exporter, only \"otlp\"")
		default:
			p.warn(name, word, "unknown exporter; the nearest known one is %q", nearest(word, exporters))
		}
	}
}

// otherVariables are read elsewhere, or mean something to DFTracer itself and
// nothing here.
var otherVariables = []string{
	environ.File, dftracerFileVariable, environ.Dir, environ.Run,
	environ.Ring, environ.Torch, environ.Only, environ.Without, environ.Verbose,
	"DFTRACER_INIT", "DFTRACER_INIT_COUNT", "DFTRACER_GOTCHA_PRIORITY", "DFTRACER_LOG_LEVEL", "DFTRACER_TIME_METRIC",
	"DFTRACER_BIND_SIGNALS", "DFTRACER_ERROR",
	"DFTRACER_LIBUV_THREADS", "DFTRACER_ENABLE_AGGREGATION", "DFTRACER_AGGREGATION_TYPE", "DFTRACER_AGGREGATION_FILE",
	"DFTRACER_ENABLE_PAPI_TRACING", "DFTRACER_PAPI_EVENTS", "DFTRACER_PAPI_MULTIPLEX", "DFTRACER_PAPI_SAMPLE_INTERVAL_MS",
	"DFTRACER_DISABLE_VARIORUM_POWER",
}

// checkNames reports variables that look like ours and are none: a name with a
// slip of the pen would be ignored without a word.
func checkNames(p *problems, environ []string) {
	var known []string
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, "TRAINSPAN_") && !strings.HasPrefix(name, "DFTRACER_") {
			continue
		}
		if known == nil {
			known = slices.Concat(otherVariables, identity.Variables())
			for name := range environmentVariables() {
				known = append(known, name)
			}
		}
		if !slices.Contains(known, name) {
			p.warn(name, nil, "unknown variable, which has no effect; the nearest known one is %s", nearest(name, known))
		}
	}
}
