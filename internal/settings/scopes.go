package settings

import (
	"slices"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/vocab"
	"github.com/trainspan/trainspan/spans"
)

// SentName is the name under which a span of a DFTracer category and name is sent,
// and whether an export customization lets it through: the standard span's name, that
// of a span of the program's own for what is in category "telemetry", and for any other
// the one that scopes of package ai have. The default customization lets through what
// it does of a Go program: standard spans but those of single iterations, the
// program's own, and no scopes. A list names spans as for Provider.ScopeKind.
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

// customCategory is the category in trace files of spans that a program starts by
// Provider.StartSpan under a name of its own.
const customCategory = "telemetry"

// ExportName returns the name by which a filter asks for such scopes.
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
