package config

import (
	"reflect"

	"github.com/trainspan/trainspan/internal/platform/identity"
)

// Ranks is the place of a process in a job, as its launcher reports it: the
// rank, the job and the start of the job. An unset field is unknown; code that
// needs a number uses Rank.Or(0) and WorldSize.Or(1).
type Ranks struct {
	// Rank counts the processes of the job from zero.
	Rank Var[int]
	// LocalRank counts the processes of this machine from zero.
	LocalRank Var[int]
	// WorldSize is the number of processes of the job.
	WorldSize Var[int]
	// Attempt counts the starts of the job from zero.
	Attempt Var[int]
	// Job is the launcher's id of the job, the same on every rank and for every
	// attempt.
	Job string
	// Run is the same on every rank of one start of the job and, together with
	// Attempt, different for every other start: all ids that launchers set. Empty
	// means that the ranks share no known id.
	Run string
}

// DetectRanks reads the variables that launchers set: torchrun, Open MPI, PMI,
// PMIx, Flux, Slurm, Kubernetes, PBS and LSF. docs/reference/configuration.md has the
// variables in their order. If torchrun has started the process, the variables
// of the others are about its node.
//
// lookup is a function like os.LookupEnv; nil finds no variable. The error is a
// [*ValidationError] with every invalid value; the others are still read.
func DetectRanks(lookup func(name string) (string, bool)) (Ranks, error) {
	r, problems := detectRanks(lookup)
	return r, problems.err()
}

func detectRanks(lookup func(string) (string, bool)) (Ranks, problems) {
	if lookup == nil {
		return Ranks{}, nil
	}
	l := identity.FromEnvironment(lookup, func(text string) (int, error) { return toInt(text) })
	var found problems
	for _, b := range l.Bad {
		message := "must be set to a positive value"
		switch {
		case b.Err != nil:
			message = b.Err.Error()
		case b.Least == 0:
			message = "must not be negative"
		}
		found = append(found, Problem{b.Key, b.Text, message, b.Variable})
	}
	return Ranks{Rank: l.Rank, LocalRank: l.LocalRank, WorldSize: l.WorldSize, Attempt: l.Attempt, Job: l.Job, Run: l.Run}, found
}

// take applies the fields of another source to r.
func (r *Ranks) take(o *Ranks) {
	to, from := reflect.ValueOf(r).Elem(), reflect.ValueOf(o).Elem()
	for i := range from.NumField() {
		if !from.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
}
