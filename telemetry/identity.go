package telemetry

import (
	"os"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/trainspan/trainspan/config"
)

// Version is the version of this library as records report it.
const Version = "0.1.0"

// withDefaults fills the fields that were left open.
func withDefaults(id Identity, base *config.Base, ranks config.Ranks, launch config.Launch) Identity {
	if id.Host == "" {
		if host, err := os.Hostname(); err == nil {
			id.Host = host
		} else {
			id.Host = "unknown"
		}
	}
	if id.PID == 0 {
		id.PID = os.Getpid()
	}
	if id.Version == "" {
		id.Version = Version
	}
	if !id.Rank.IsSet() {
		id.Rank = config.Value(ranks.Rank.Or(0))
	}
	if !id.LocalRank.IsSet() {
		id.LocalRank = ranks.LocalRank
	}
	if !id.Attempt.IsSet() {
		id.Attempt = config.Value(launch.Attempt.Or(0))
	}
	if id.Job == "" {
		id.Job = launch.Job
	}
	if id.WorldSize == 0 {
		id.WorldSize = base.WorldSize.Get()
	}
	id.SessionTag = base.SessionTag.Get()
	id.ApplicationName = base.ApplicationName
	return id
}

// idsOf is the generator of ids for a process: a trace for the whole job if
// it has several ranks. A process on its own gets a trace of its own each time
// it is started.
func idsOf(id Identity) sdktrace.IDGenerator {
	if id.WorldSize > 1 {
		return JobIDs(id.SessionTag, id.Job, id.Attempt.Get())
	}
	g := &idGenerator{}
	for !g.job.IsValid() {
		g.fill(g.job[:])
	}
	return g
}
