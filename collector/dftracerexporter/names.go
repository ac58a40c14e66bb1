package dftracerexporter

import (
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/spans"
)

// noScope is the category of spans without an instrumentation scope.
const noScope = "otel"

// goScope is what the Go SDK calls a tracer without a name.
const goScope = "go.opentelemetry.io/otel/sdk/tracer"

// maxKeys bounds the names that a process has in encoded form.
const maxKeys = 2048

type keyID struct {
	cat, scope, name string
}

// keys finds the encoded category and name of spans by the rules of the trace
// file: the attributes dftracer.cat and dftracer.name, the table of package
// spans, and otherwise the last word of the scope and the span's own name. It
// is not safe for concurrent use.
type keys map[keyID]*dftracer.Key

func (k keys) find(scope, name, cat, event string) *dftracer.Key {
	id := keyID{cat, scope, name}
	if event != "" {
		id.name = event
	} else if info, ok := spans.Lookup(name); ok {
		if cat == "" {
			id.cat = info.Category
		}
		id.name = info.Event
	}
	if id.cat != "" {
		id.scope = ""
	}
	if key := k[id]; key != nil {
		return key
	}
	cat = id.cat
	if cat == "" {
		if info, ok := spans.Lookup(name); ok {
			cat = info.Category
		} else {
			cat = lastWord(scope)
		}
	}
	// Analyzers leave the category of the format's own records out.
	if strings.EqualFold(cat, dftracer.CatDFTracer) {
		cat += ".app"
	}
	key := dftracer.NewKey(cat, id.name)
	if len(k) < maxKeys {
		k[id] = &key
	}
	return &key
}

// lastWord is the last word of an instrumentation scope such as
// "opentelemetry.instrumentation.requests".
func lastWord(full string) string {
	scope := strings.TrimRight(full, "/.:")
	if i := strings.LastIndexAny(scope, "/.: "); i >= 0 {
		scope = scope[i+1:]
	}
	if scope == "" || full == goScope {
		return noScope
	}
	return scope
}
