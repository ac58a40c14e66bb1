package vocab

import "strings"

// noScope is the category of spans without an instrumentation scope, and goScope
// what the Go SDK calls a tracer without a name.
const (
	noScope = "otel"
	goScope = "go.opentelemetry.io/otel/sdk/tracer"
)

// reserved is the category of the trace format's own records, which analyzers
// leave out.
const reserved = "dftracer"

// Arguments of the record of an exception that ended a process, beside those of one-logger:
// file and line of the program's own code, and that line of its source.
const (
	ExceptionAt   = "exception_at"
	ExceptionCode = "exception_code"
)

// TraceName returns the category and the name that an OpenTelemetry span has in a
// trace file: each is that of its attribute ([spans.AttrCategory], [spans.AttrName]; empty if it
// has none), else that of the tables for a standard span or one of [Known], else
// the last word of the instrumentation scope and the span's own name.
func TraceName(scope, name, category, event string) (string, string) {
	info, ok := Known(name)
	switch {
	case category != "":
	case ok:
		category = info.Category
	default:
		category = lastWord(scope)
	}
	switch {
	case event != "":
	case ok:
		event = info.Event
	default:
		event = name
	}
	return SafeCategory(category), event
}

// lastWord returns the last word of a scope, as in
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

// SafeCategory keeps a category apart from that of the trace format's own
// records.
func SafeCategory(category string) string {
	if strings.EqualFold(category, reserved) {
		return category + ".app"
	}
	return category
}

// ScopeName returns the name of a scope of a category and a name as an
// OpenTelemetry span: "compute.forward".
func ScopeName(category, name string) string {
	if category == name {
		return name
	}
	return category + "." + name
}
