package vocab

import "strings"

// noScope is the category of spans without an instrumentation scope; goScope is
// the Go SDK's name for a tracer without a name.
const (
	noScope = "otel"
	goScope = "go.opentelemetry.io/otel/sdk/tracer"
)

// reserved is the category of the trace format's own records, which analyzers
// leave out.
const reserved = "dftracer"

// Arguments of the record of an exception that ended a process, in addition to
// one-logger's: file and line in the program's own code, and the text of that
// line.
const (
	ExceptionAt   = "exception_at"
	ExceptionCode = "exception_code"
)

// TraceName returns the category and the name that an OpenTelemetry span has in
// a trace file. For each of them it takes the attribute ([spans.AttrCategory],
// [spans.AttrName]; empty if the span has none), else the tables of standard
// spans and [Known], else the last word of the instrumentation scope or the
// span's own name.
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

// lastWord returns the last word of a scope, such as requests for
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

// SafeCategory renames a category that is reserved for the trace format's own
// records.
func SafeCategory(category string) string {
	if strings.EqualFold(category, reserved) {
		return category + ".app"
	}
	return category
}

// ScopeName returns the OpenTelemetry span name of a scope with a category and
// a name: "compute.forward".
func ScopeName(category, name string) string {
	if category == name {
		return name
	}
	return category + "." + name
}
