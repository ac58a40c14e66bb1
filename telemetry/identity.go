package telemetry

import (
	"os"

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

	SessionTag      string
	ApplicationName string
}

// withDefaults fills the fields that were left open.
func (id Identity) withDefaults(base *config.Base, ranks config.Ranks) Identity {
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
	if id.WorldSize == 0 {
		id.WorldSize = base.WorldSize.Get()
	}
	id.SessionTag = base.SessionTag.Get()
	id.ApplicationName = base.ApplicationName
	return id
}
