package dft

import "errors"

var (
	errNoPhase   = errors.New("record has no ph")
	errBadPhase  = errors.New("unknown ph")
	errNotObject = errors.New("not a JSON object")
)

// Parser turns lines into events. The common form, compact and with plain
// values, takes one pass over the bytes; everything else that is valid JSON
// goes through encoding/json.
type Parser struct {
	intern  interner
	scratch []byte
	Slow    int  // lines that took the general way
	Seen    Keys // of the line that was parsed last; set by the fast way only

	// Of the lines before, since neighbours are alike: the text from the process to
	// the time, that from the phase to the first argument, and the names of arguments.
	lane, tail []byte
	pid, tid   int64  // in lane
	phase      Phase  // in tail
	host       string // in tail
	names      [8]string
}

// Keys says which members a record has.
type Keys uint16

const (
	HasID Keys = 1 << iota // id
	HasName
	HasCat
	HasPID
	HasTID
	HasTS
	HasDur
	HasArgs // with something in them
	HasHost
)

func phaseOfLetter(c byte) Phase {
	switch c {
	case 'X':
		return PhaseComplete
	case 'C':
		return PhaseCounter
	case 'A':
		return PhaseAggregated
	case 'M':
		return PhaseMetadata
	}
	return PhaseUnknown
}
