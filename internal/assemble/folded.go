package assemble

import (
	"strings"

	"github.com/trainspan/trainspan/spans"
)

// The OpenTelemetry exporter of NVIDIA's one-logger sends each event of a span
// twice: as an event when the span ends, and at once as a span without length
// below it, whose name says which event of which span it stands for.
const (
	oneLoggerScope = "one_logger"
	eventInfix     = "_event_for_"
	errorPrefix    = "error_for_"
)

// Folded returns the event that a span stands for, and the name of the span that the
// event is of. ok is false for a span that stands for itself. below says that it has a
// parent, length that it ends later than it begins, failed that its status is an error.
func Folded(scope, name string, below, length, failed bool) (event, span string, ok bool) {
	if scope != oneLoggerScope || !below || length {
		return "", "", false
	}
	if span, ok = strings.CutPrefix(name, errorPrefix); ok && failed {
		event = spans.EventError
	} else {
		event, span, ok = strings.Cut(name, eventInfix)
	}
	return event, span, ok && event != "" && span != ""
}
