package outputs

import (
	"cmp"
	"os"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/identity"
)

// Version is the version of this library as records report it.
const Version = "0.1.0"

// Identity says who writes: the process and its place in the job. A zero
// field is filled in by ConfigureProvider from the operating system, the
// launcher's environment variables and the configuration.
type Identity struct {
	Host    string // host name
	PID     int    // process id
	Version string // version of the telemetry library
	Rank    config.Var[int]
	// RankKnown says that the program or the launcher gave Rank. Without it Rank
	// is 0, and the names of files do not tell ranks apart.
	RankKnown bool
	LocalRank config.Var[int]
	WorldSize int

	// Attempt counts the starts of the job from zero, and Job is its id at the
	// launcher. Both are the same on every rank.
	Attempt config.Var[int]
	Job     string
	// Run is what all ranks of this start of the job share, see config.Ranks.
	Run string

	SessionTag      string // of the configuration
	ApplicationName string // of the configuration
}

// WithDefaults fills the fields that were left open from the operating system,
// the configuration, which must be that of Base.WithDefaults, and the place of
// the process.
func (id Identity) WithDefaults(base *config.Base, ranks config.Ranks) Identity {
	if id.Host == "" {
		id.Host = identity.HostName()
	}
	id.PID = cmp.Or(id.PID, os.Getpid())
	id.Version = cmp.Or(id.Version, Version)
	id.RankKnown = id.RankKnown || id.Rank.IsSet() || ranks.Rank.IsSet()
	if !id.Rank.IsSet() {
		id.Rank = config.Value(ranks.Rank.Or(0))
	}
	if !id.LocalRank.IsSet() {
		id.LocalRank = ranks.LocalRank
	}
	if !id.Attempt.IsSet() {
		id.Attempt = config.Value(ranks.Attempt.Or(0))
	}
	id.Job = cmp.Or(id.Job, ranks.Job)
	id.Run = cmp.Or(id.Run, ranks.Run, id.Job)
	id.WorldSize = cmp.Or(id.WorldSize, base.WorldSize.Get())
	id.SessionTag = base.SessionTag.Get()
	id.ApplicationName = base.ApplicationName
	return id
}
