// Package settings is what telemetry makes of a configuration: which outputs are on,
// who a process is, its resource, and what a filter says of scopes.
package settings

import (
	"cmp"
	"os"

	"github.com/trainspan/trainspan/config"
	"github.com/trainspan/trainspan/internal/identity"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// Identity fills the fields of id that were left open from the operating system,
// the configuration, which must be that of Base.WithDefaults, and the place of the
// process.
func Identity(id outputs.Identity, base *config.Base, ranks config.Ranks) outputs.Identity {
	if id.Host == "" {
		id.Host = identity.HostName()
	}
	id.PID = cmp.Or(id.PID, os.Getpid())
	id.Version = cmp.Or(id.Version, identity.Version)
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
