package telemetry

import (
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/trainspan/trainspan/telemetry/outputs"
)

// Version is the version of this library as records report it.
const Version = outputs.Version

// idsOf is the generator of ids for a process: a trace for the whole job if it
// has several ranks that share something, see [JobIDs]. shared reports whether the
// ranks of the job meet in it; a process on its own meets nobody.
func idsOf(id Identity) (_ sdktrace.IDGenerator, shared bool) {
	if id.WorldSize <= 1 {
		return JobIDs("", "", 0), true
	}
	return JobIDs(id.SessionTag, id.Run, id.Attempt.Get()), id.Run != ""
}
