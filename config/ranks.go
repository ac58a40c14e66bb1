package config

// Ranks is a process's place in its job. An unset field is not known; a reader
// that needs a number takes Rank.Or(0) and WorldSize.Or(1).
type Ranks struct {
	// Rank counts the processes of the job from zero.
	Rank Var[int]
	// LocalRank counts the processes of this machine from zero.
	LocalRank Var[int]
	// WorldSize is the number of processes of the job.
	WorldSize Var[int]
}

// Known reports whether the launcher told this process its rank.
func (r Ranks) Known() bool { return r.Rank.IsSet() }
