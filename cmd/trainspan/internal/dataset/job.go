package dataset

import (
	"github.com/trainspan/trainspan/analysis/goodput"
	"github.com/trainspan/trainspan/internal/run"
)

// Job is what is written as one run.
type Job struct {
	Name string // of its folders
	Job  *run.Job

	// Part says that the Job is some ranks of one, which are added to what is there of
	// the others. Its files replace those of the same ranks, when all of them are
	// written, and that of the index comes last.
	Part bool

	Ledger *goodput.Ledger // nil leaves the table out

	// Steps, where it is not nil, calls its function with each row of the table
	// steps, by attempt, step and rank.
	Steps func(func(*Step) error) error
}

// Written says what a run became.
type Written struct {
	Events  int64
	Ledger  int64 // rows
	Steps   int64
	Folders int // of events
	Bytes   int64
}
