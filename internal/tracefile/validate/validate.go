package validate

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/trainspan/trainspan/internal/platform/extsort"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// Stream reads a whole trace, plain or gzip, and reports everything that a
// strict reader could fail on: JSON, framing, key types, the order of the first
// records, ids, parents, containment and lanes. Its memory does not grow with
// the number of events, only with the number of lanes, of distinct names and of
// spans open at a time. The error is about reading and temporary files, not
// about the trace.
func Stream(r io.Reader, opts *Options) (Report, error) {
	v := &validator{report: Report{Counts: make(map[string]int)}}
	if opts != nil {
		v.opts = *opts
	}
	v.begin()
	defer v.release()
	text, err := fsread.Text(bufio.NewReaderSize(r, 256<<10))
	if err != nil {
		return v.report, fmt.Errorf("dftracer: validate: %w", err)
	}
	var src fsread.Lines
	src.Reset(text, v.opts.Stop)
	for v.failed == nil {
		line, err := src.Next()
		if errors.Is(err, fsread.ErrLongLine) {
			v.long(err)
			continue
		}
		if err != nil {
			if rest, err := src.Rest(); err != nil {
				v.long(err)
			} else if len(rest) > 0 {
				v.line(rest, false)
			}
			switch {
			case errors.Is(err, io.EOF):
			case fsread.Torn(err):
				v.whole("the gzip stream is damaged or cut", "the gzip stream is damaged or cut: %v", err)
			default:
				return v.report, fmt.Errorf("dftracer: read: %w", err)
			}
			break
		}
		v.line(line, true)
	}
	v.finish()
	v.report.sortGroups()
	if v.failed != nil {
		return v.report, fmt.Errorf("dftracer: validate: %w", v.failed)
	}
	return v.report, nil
}

// File validates a file: see Stream.
func File(path string, opts *Options) (Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return Report{}, fmt.Errorf("dftracer: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	return Stream(f, opts)
}

func (v *validator) finish() {
	v.report.Open = len(v.open)
	v.report.Lanes = len(v.lanes)
	v.loose = v.loose || v.report.Lost > 0 || v.opts.AllowUnfinished && !v.ended // a parent may be lost, or still to come
	twice, parents := v.checkParents()
	v.insert(twice)
	if !v.opts.AllowForeign {
		v.framing()
	}
	v.append(parents)
	if !v.opts.AllowForeign {
		v.append(v.checkOverlaps())
	}
}

// known is what a validation keeps of a record, to compare it with others once
// all are read.
type known struct {
	kind       byte
	id         uint64
	parent     int64 // for a reference, stored under the id of its parent
	line       int
	start, end int64
	level      int
	lane       uint32
}

// The kinds of known records. Records that define an id come before those that
// refer to it.
const (
	defFact = iota
	defSpan
	refParent
)

// lane is a lane, on which spans must nest.
type lane struct{ pid, tid int64 }

type validator struct {
	opts   Options
	report Report
	parser tracefile.Parser
	event  tracefile.Event
	known  *extsort.Sorter[known] // by id
	placed *extsort.Sorter[known] // by lane
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
