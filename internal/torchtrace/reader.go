package torchtrace

import (
	"time"

	"github.com/trainspan/trainspan/internal/infile"
)

type reader struct {
	log    *Log
	fn     func(*Phase) error
	stacks map[int64][]Phase

	// Of logs without dates.
	at     time.Time // of the record, without a year
	seen   []seen
	seenAt map[string]int

	lines infile.Lines

	// The record being collected.
	open     bool
	offset   int64
	tid      int64
	envelope []byte
	payload  []byte
	tooLong  bool
}

// seen is what the clocks in front of the records of one compilation say.
type seen struct {
	id          string
	tid         int64
	first, last time.Time // without year and zone
}

// maxDepth is how deep phases of a thread nest.
const maxDepth = 1000
