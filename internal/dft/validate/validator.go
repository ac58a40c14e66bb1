package validate

import (
	"fmt"

	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/internal/spill"
)

// known is what Validate keeps of a record, to compare it with others once all
// are read.
type known struct {
	kind       byte
	id         uint64
	parent     int64 // of a reference, which stands under the id of its parent
	line       int
	start, end int64
	level      int
	lane       uint32
}

// The kinds of known records. Those that define an id stand before those that
// refer to it.
const (
	defFact = iota
	defSpan
	refParent
)

// lane is where spans have to nest.
type lane struct{ pid, tid int64 }

type validator struct {
	opts   Options
	report Report
	parser dft.Parser
	event  dft.Event
	known  *spill.Sorter[known] // by id
	placed *spill.Sorter[known] // by lane
	lanes  map[lane]uint32
	failed error // of a temporary file
	open   map[uint64]bool
	heads  []string // names of the first records
	opened bool
	closed bool
	ended  bool
	loose  bool // a part of a rotated trace
}

func (v *validator) problem(rule, format string, args ...any) {
	v.report.problem(Problem{v.report.Lines, rule, fmt.Sprintf(format, args...)})
}

func (v *validator) whole(rule, format string, args ...any) {
	v.report.problem(Problem{0, rule, fmt.Sprintf(format, args...)})
}

func (v *validator) long(err error) {
	v.report.Lines++
	v.problem("line is too long", "%v", err)
}
