package outputs

import "github.com/trainspan/trainspan/config"

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
