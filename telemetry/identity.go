package telemetry

import (
	"os"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/trainspan/trainspan/config"
)

// Version is the version of this library as records report it.
const Version = "0.1.0"

// Identity says who writes: the process and its place in the job. A zero
// field is filled in by ConfigureProvider from the operating system, the
// launcher's environment variables and the configuration.
type Identity struct {
	Host      string // host name
	PID       int    // process id
	Version   string // version of the telemetry library
	Rank      config.Var[int]
	LocalRank config.Var[int]
	WorldSize int

	// Attempt counts the starts of the job from zero, and Job is its id at the
	// launcher. Both are the same on every rank.
	Attempt config.Var[int]
	Job     string

	SessionTag      string // of the configuration
	ApplicationName string // of the configuration
}

// withDefaults fills the fields that were left open.
func (id Identity) withDefaults(base *config.Base, ranks config.Ranks, launch config.Launch) Identity {
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

// ids is the generator of ids for that process: a trace for the whole job if
// it has several ranks. A process on its own gets a trace of its own each time
// it is started.
func (id Identity) ids() sdktrace.IDGenerator {
	if id.WorldSize > 1 {
		return JobIDs(id.SessionTag, id.Job, id.Attempt.Get())
	}
	g := &idGenerator{}
	for !g.job.IsValid() {
		g.fill(g.job[:])
	}
	return g
}
