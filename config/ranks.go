package config

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Ranks is what a launcher says about a process: its place in the job, and which
// start of which job it is. An unset field is not known; a reader that needs a
// number takes Rank.Or(0) and WorldSize.Or(1).
type Ranks struct {
	// Rank counts the processes of the job from zero.
	Rank Var[int]
	// LocalRank counts the processes of this machine from zero.
	LocalRank Var[int]
	// WorldSize is the number of processes of the job.
	WorldSize Var[int]
	// Attempt counts the starts of the job from zero.
	Attempt Var[int]
	// Job identifies the job at its launcher, the same on every rank and for
	// every attempt.
	Job string
	// Run is the same on every rank of one start of the job and, together with
	// Attempt, different for every other: all ids that launchers give. Empty
	// means that nothing is known that all ranks share.
	Run string
}

const (
	attemptVariable = "TRAINSPAN_ATTEMPT"
	jobVariable     = "TRAINSPAN_JOB"
)

// jobVariables name the job, with what distinguishes two runs in one job.
var jobVariables = []struct{ name, part string }{
	{jobVariable, ""},
	{"TORCHELASTIC_RUN_ID", ""},
	{"SLURM_JOB_ID", "SLURM_STEP_ID"},
	{"FLUX_JOB_ID", ""},
	{"PBS_JOBID", ""},
	{"LSB_JOBID", ""},
	{"PMIX_NAMESPACE", ""},
}

// DetectRanks reads what launchers gave this process. Of each row the first
// variable that is set counts; run joins all that are set.
//
//	rank        RANK, SLURM_PROCID, OMPI_COMM_WORLD_RANK, PMI_RANK, PMIX_RANK, FLUX_TASK_RANK,
//	            NODE_RANK (or GROUP_RANK) * LOCAL_WORLD_SIZE + LOCAL_RANK,
//	            JOB_COMPLETION_INDEX (Kubernetes)
//	local rank  LOCAL_RANK, SLURM_LOCALID, OMPI_COMM_WORLD_LOCAL_RANK, FLUX_TASK_LOCAL_ID
//	world size  WORLD_SIZE, SLURM_NTASKS, OMPI_COMM_WORLD_SIZE, PMI_SIZE, FLUX_JOB_SIZE
//	attempt     TRAINSPAN_ATTEMPT, TORCHELASTIC_RESTART_COUNT, SLURM_RESTART_COUNT
//	job, run    TRAINSPAN_JOB, TORCHELASTIC_RUN_ID, SLURM_JOB_ID (run: with SLURM_STEP_ID),
//	            FLUX_JOB_ID, PBS_JOBID, LSB_JOBID, PMIX_NAMESPACE
//
// The lookup is one as os.LookupEnv; nil knows no variable. The error is a
// [*ValidationError] that names every variable with a bad value; what could be
// read is in the Ranks.
func DetectRanks(lookup func(name string) (string, bool)) (Ranks, error) {
	return Ranks{}.Complete(lookup)
}

// Complete is [DetectRanks] for what r leaves open. Where one of rank, local rank
// and world size is given, all three count as given.
func (r Ranks) Complete(lookup func(name string) (string, bool)) (Ranks, error) {
	found, problems := detectRanks(lookup)
	if r.Rank.IsSet() || r.LocalRank.IsSet() || r.WorldSize.IsSet() {
		found.Rank, found.LocalRank, found.WorldSize = r.Rank, r.LocalRank, r.WorldSize
		problems.list = slices.DeleteFunc(problems.list, func(p Problem) bool { return p.Field != "attempt" })
	}
	if r.Attempt.IsSet() {
		found.Attempt = r.Attempt
	}
	if r.Job != "" || r.Run != "" {
		found.Job, found.Run = cmp.Or(r.Job, r.Run), cmp.Or(r.Run, r.Job)
	}
	return found, problems.err()
}

func detectRanks(lookup func(string) (string, bool)) (Ranks, problems) {
	if lookup == nil {
		return Ranks{}, problems{}
	}
	d := rankReader{lookup: lookup}
	r := Ranks{
		Rank:      d.first(0, "rank", "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "FLUX_TASK_RANK"),
		LocalRank: d.first(0, "local_rank", "LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "FLUX_TASK_LOCAL_ID"),
		WorldSize: d.first(1, "world_size", "WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "FLUX_JOB_SIZE"),
	}
	if !r.Rank.IsSet() && len(d.found.list) == 0 {
		node := d.first(0, "node_rank", "NODE_RANK", "GROUP_RANK")
		perNode := d.first(1, "local_world_size", "LOCAL_WORLD_SIZE")
		if node.IsSet() && perNode.IsSet() && r.LocalRank.IsSet() && fits(node.Get(), perNode.Get(), r.LocalRank.Get()) {
			r.Rank = Value(node.Get()*perNode.Get() + r.LocalRank.Get())
		} else {
			r.Rank = d.first(0, "rank", "JOB_COMPLETION_INDEX")
		}
	}
	r.Attempt = d.first(0, "attempt", attemptVariable, "TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")
	r.Job, r.Run = d.job()
	return r, d.found
}

// fits reports whether a*b+c stays within an int; none is negative.
func fits(a, b, c int) bool { return a <= (math.MaxInt-c)/b }

type rankReader struct {
	lookup func(string) (string, bool)
	found  problems
}

func (d *rankReader) text(name string) string {
	text, _ := d.lookup(name)
	return strings.TrimSpace(text)
}

// job joins the ids of the launchers, one of which may have started another.
// Elastic calls a run without a name "none".
func (d *rankReader) job() (job, run string) {
	var all []string
	for _, v := range jobVariables {
		id := d.text(v.name)
		if id == "" || id == "none" {
			continue
		}
		if job == "" {
			job = id
		}
		if part := d.text(v.part); v.part != "" && part != "" {
			id += "." + part
		}
		all = append(all, id)
	}
	return job, strings.Join(all, "/")
}

func (d *rankReader) first(least int, key string, names ...string) Var[int] {
	for _, name := range names {
		text := d.text(name)
		if text == "" {
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
