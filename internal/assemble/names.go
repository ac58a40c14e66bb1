package assemble

import (
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/spans"
)

// noScope is the category of spans without an instrumentation scope.
const noScope = "otel"

// goScope is what the Go SDK calls a tracer without a name.
const goScope = "go.opentelemetry.io/otel/sdk/tracer"

// maxNames bounds the names that a process has in encoded form.
const maxNames = 2048

type nameID struct {
	cat, scope, name string
}

// Names finds the encoded category and name of spans by the rules of the trace
// file: the attributes dftracer.cat and dftracer.name, the table of package
// spans, and otherwise the last word of the scope and the span's own name. The
// zero value is ready for use. It is not safe for concurrent use.
type Names struct {
	known map[nameID]*dftracer.Key
}

// Find returns the key of a span. cat and event are the attributes, empty if
// the span has none.
func (n *Names) Find(scope, name, cat, event string) *dftracer.Key {
	id := nameID{cat, scope, name}
	if event != "" {
		id.name = event
	}
	if cat == "" || event == "" {
		if i := spans.Index(name); i >= 0 {
			info := spans.At(i)
			if cat == "" {
				id.cat = info.Category
			}
			if event == "" {
				id.name = info.Event
			}
		}
	}
	if id.cat != "" {
		id.scope = ""
	}
	if key := n.known[id]; key != nil {
		return key
	}
	if cat = id.cat; cat == "" {
		cat = LastWord(id.scope)
	}
	key := dftracer.NewKey(SafeCategory(cat), id.name)
	if n.known == nil {
		n.known = make(map[nameID]*dftracer.Key)
	}
	if len(n.known) < maxNames {
		n.known[nameID{strings.Clone(id.cat), strings.Clone(id.scope), strings.Clone(id.name)}] = &key
	}
	return &key
}

// LastWord is the category of an instrumentation scope: its last word, as in
// "opentelemetry.instrumentation.requests".
func LastWord(full string) string {
	scope := strings.TrimRight(full, "/.:")
	if i := strings.LastIndexAny(scope, "/.: "); i >= 0 {
		scope = scope[i+1:]
	}
	if scope == "" || full == goScope {
		return noScope
	}
	return scope
}

// SafeCategory keeps spans out of the category of the format's own records,
// which analyzers leave out.
func SafeCategory(cat string) string {
	if strings.EqualFold(cat, dftracer.CatDFTracer) {
		return cat + ".app"
	}
	return cat
}
