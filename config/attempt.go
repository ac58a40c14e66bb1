package config

import "strings"

// Launch is what the launcher says of this start of the job: the same on every
// rank, and different from one start to the next.
type Launch struct {
	// Attempt counts the starts of the job from zero.
	Attempt Var[int]
	// Job identifies the job at its launcher; empty when it is not known.
	Job string
}

// DetectLaunch reads what a launcher told this process. Of each row the first
// variable that is set counts:
//
//	attempt     TRAINSPAN_ATTEMPT, TORCHELASTIC_RESTART_COUNT, SLURM_RESTART_COUNT
//	job         TORCHELASTIC_RUN_ID, SLURM_JOB_ID, PBS_JOBID, LSB_JOBID
//
// The error is a [*ValidationError] that names every variable with a bad value.
// A nil lookup knows no variable.
func DetectLaunch(lookup Lookup) (Launch, error) {
	d := rankReader{lookup: lookup}
	l := Launch{
		Attempt: d.first(0, "attempt", "TRAINSPAN_ATTEMPT", "TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"),
	}
	if lookup != nil {
		for _, name := range []string{"TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"} {
			if v, ok := lookup(name); ok && strings.TrimSpace(v) != "" && v != "none" {
				l.Job = strings.TrimSpace(v)
				break
			}
		}
	}
	return l, d.found.err()
}
