package report

import (
	"github.com/trainspan/trainspan/analysis/goodput"
	"github.com/trainspan/trainspan/internal/evidence"
	"github.com/trainspan/trainspan/internal/fromrun"
	"github.com/trainspan/trainspan/internal/run"
)

// Job is what a report is built from.
type Job struct {
	Name     string // of the report: where the files lie; may be empty
	Job      *run.Job
	Ledger   *goodput.Ledger
	Attempts []fromrun.Attempt
	Skipped  []*run.FileError // files that were left out, by path
	// Basis is what figures need beyond the records. Without Devices a rank has one.
	Basis goodput.Basis

	clocks  fromrun.ClockTable // how far they were set forward
	uses    []rankUse          // of a job that is a profile, by rank
	details *details
	others  []*evidence.File // what lies beside the records
}
