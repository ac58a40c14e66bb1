package dftracer

import "errors"

var (
	errNoPhase   = errors.New("record has no ph")
	errBadPhase  = errors.New("unknown ph")
	errNotObject = errors.New("not a JSON object")
)

// parser turns lines into events. The common form, compact and with plain
// values, takes one pass over the bytes; everything else that is valid JSON
// goes through encoding/json.
type parser struct {
	intern  interner
	scratch []byte
	slow    int  // lines that took the general way
	seen    keys // of the line that was parsed last; set by the fast way only

	// Of the lines before, since neighbours are alike: the text from the process to
	// the time, that from the phase to the first argument, and the names of arguments.
	lane, tail []byte
	pid, tid   int64  // in lane
	phase      Phase  // in tail
	host       string // in tail
	names      [8]string
}

// keys says which members a record has.
type keys uint16

const (
	hasID keys = 1 << iota
	hasName
	hasCat
	hasPID
	hasTID
	hasTS
	hasDur
	hasArgs // with something in them
	hasHost
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
