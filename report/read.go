package report

import (
	"github.com/trainspan/trainspan/analysis/goodput"
	"github.com/trainspan/trainspan/analysis/run"
	"github.com/trainspan/trainspan/analysis/straggler/fromrun"
)

// Job is what a report is built from.
type Job struct {
	Name     string // of the report: where the files lie; may be empty
	Job      *run.Job
	Ledger   *goodput.Ledger
	Attempts []fromrun.Attempt
	Skipped  []*run.FileError // files that were left out

	details *details
}

// Read reads the files of a set once and gives the jobs in it, the one with the
// most processes first.
func Read(set *run.Set) ([]*Job, error) {
	steps := fromrun.New()
	more := newDetailer()
	accounts, err := goodput.Collect(set, steps.Open, more.open)
	if err != nil {
		return nil, err
	}
	var out []*Job
	for _, a := range accounts {
		j := &Job{Job: a.Job, Ledger: a.Ledger, Attempts: steps.Attempts(a.Job), details: more.of(a.Job), Skipped: set.Skipped}
		at := len(out)
		for at > 0 && len(out[at-1].Job.Processes) < len(j.Job.Processes) {
			at--
		}
		out = append(out, nil)
		copy(out[at+1:], out[at:])
		out[at] = j
	}
	return out, nil
}
