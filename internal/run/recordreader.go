package run

import (
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/filetime"
	"github.com/trainspan/trainspan/internal/spill"
	"github.com/trainspan/trainspan/internal/vocab"
)

// records is what a file of JSON lines says of one process.
type records struct {
	proc   *Process
	events []Event
}

// record is one line of a file in the one-logger grammar, ours or the
// reference's. Ours have what follows pid.
type record struct {
	Type       string       `json:"type"`
	ID         string       `json:"id"`
	SpanID     string       `json:"span_id"`
	Name       string       `json:"name"`
	Attributes arguments    `json:"attributes"`
	StartEvent *recordEvent `json:"start_event"`
	StopEvent  *recordEvent `json:"stop_event"`
	Event      *recordEvent `json:"event"`
	Error      *recordEvent `json:"error"`
	PID        int64        `json:"pid"`
	Rank       *int         `json:"rank"`
	Attempt    *int         `json:"attempt"`
	ParentID   string       `json:"parent_id"`
}

type recordEvent struct {
	Name       string    `json:"name"`
	Attributes arguments `json:"attributes"`
}

// writer tells the processes of one file apart.
type writer struct {
	pid  int64
	rank int
}

// recordReader puts the records of a file together.
type recordReader struct {
	path    string
	spans   *spill.Sorter[heldSpan] // of all, by writer and time
	times   *filetime.Judge         // of their starts, and of the events
	failed  error                   // of a temporary file
	writers map[writer]*recordProcess
	order   []*recordProcess
	bad     int
	torn    error // what ended a torn gzip stream

	arguments bool // they are kept
}

// recordProcess is what one writer wrote: a process, or several that had the
// same number one after the other.
type recordProcess struct {
	*recordReader
	group  uint32
	events []Event
	key    writer
	open   map[uint64]heldSpan // those without an end, by id
	ends   map[uint64]heldSpan // ends whose start has not come
	lives  []int64             // heartbeats
	known  map[uint64]int64    // start of spans that ended, to drop copies
	inits  []recordEvent       // with their times
	ranked bool
	number *int

	aside    int  // what judge left out
	spanned  bool // it has spans
	relative bool
	names    vocab.Book

	starts []int64    // of the applications
	parts  []*records // the processes, one for each
}

// heldSpan is a span of a writer.
type heldSpan struct {
	Span
	group uint32
	args  []dftracer.Arg // where they are asked for
}
