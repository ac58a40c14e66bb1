package config

import "math"

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

// DetectRanks reads what a launcher told this process. Of each row the first
// variable that is set counts:
//
//	rank        RANK, SLURM_PROCID, OMPI_COMM_WORLD_RANK, PMI_RANK,
//	            NODE_RANK (or GROUP_RANK) * LOCAL_WORLD_SIZE + LOCAL_RANK
//	local rank  LOCAL_RANK, SLURM_LOCALID, OMPI_COMM_WORLD_LOCAL_RANK
//	world size  WORLD_SIZE, SLURM_NTASKS, OMPI_COMM_WORLD_SIZE, PMI_SIZE
//
// The error is a [*ValidationError] that names every variable with a bad value.
// A nil lookup knows no variable.
func DetectRanks(lookup Lookup) (Ranks, error) {
	r, found := detectRanks(lookup)
	return r, found.err()
}

func detectRanks(lookup Lookup) (Ranks, problems) {
	d := rankReader{lookup: lookup}
	r := Ranks{
		Rank:      d.first(0, "rank", "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"),
		LocalRank: d.first(0, "local_rank", "LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"),
		WorldSize: d.first(1, "world_size", "WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"),
	}
	if !r.Rank.IsSet() && len(d.found.list) == 0 {
		node := d.first(0, "node_rank", "NODE_RANK", "GROUP_RANK")
		perNode := d.first(1, "local_world_size", "LOCAL_WORLD_SIZE")
		if node.IsSet() && perNode.IsSet() && r.LocalRank.IsSet() && fits(node.Get(), perNode.Get(), r.LocalRank.Get()) {
			r.Rank = Value(node.Get()*perNode.Get() + r.LocalRank.Get())
		}
	}
	return r, d.found
}

// fits reports whether a*b+c stays within an int; none is negative.
func fits(a, b, c int) bool { return a <= (math.MaxInt-c)/b }

type rankReader struct {
	lookup Lookup
	found  problems
}

func (d *rankReader) first(least int, key string, names ...string) Var[int] {
	if d.lookup == nil {
		return Var[int]{}
	}
	for _, name := range names {
		text, ok := d.lookup(name)
		if !ok || text == "" {
			continue
		}
		n, err := toInt(text)
		message := ""
		switch {
		case err != nil:
			message = err.Error()
		case n < least && least == 0:
			message = "must not be negative"
		case n < least:
			message = "must be set to a positive value"
		default:
			return Value(n)
		}
		d.found.list = append(d.found.list, Problem{Field: key, Value: text, Message: key + " " + message, Where: name})
		return Var[int]{}
	}
	return Var[int]{}
}
