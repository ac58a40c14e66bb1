package dftracer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/trainspan/trainspan/internal/infile"
	"github.com/trainspan/trainspan/internal/spill"
)

// ValidateOptions relaxes Validate. The zero value, and nil, are strict.
type ValidateOptions struct {
	// AllowUnfinished accepts a trace without end event and closing bracket,
	// such as that of a running or killed process.
	AllowUnfinished bool
	// AllowMissingParents accepts a p_idx that names no event of the trace.
	// Parts of a rotated trace, and traces that say themselves that events were
	// lost, are always allowed that.
	AllowMissingParents bool
	// AllowOutliving accepts events that end after, or begin before, their parent.
	AllowOutliving bool
	// AllowForeign accepts what other producers and their tools do: repeated
	// and missing ids, parents that were never written, framing that is missing,
	// repeated or in the middle, as merged traces have it, commas between
	// records, blank and long lines, arguments without hhash, events of one lane
	// that overlap partially. Every record still has to be strict JSON with the
	// right types.
	AllowForeign bool
	// Memory bounds the bytes held to compare events with each other, 32 MiB
	// when zero. What does not fit is sorted in temporary files in TempDir, the
	// system's own when empty: about 60 bytes per event.
	Memory  int64
	TempDir string
	// Stop, when not nil, is asked now and then whether to go on; its error ends
	// the validation and is returned. The Err method of a context fits.
	Stop func() error
}

// Validate reads a whole trace, plain or gzip, and reports everything in it
// that a strict reader could stumble over: JSON, framing, key types, the order
// of the first records, ids, parents, containment and lanes. Its memory does not
// grow with the number of events, only with that of lanes, of distinct names and
// of spans that are open at a time. The error is about reading and about
// temporary files, not about the trace.
func Validate(r io.Reader, opts *ValidateOptions) (Report, error) {
	v := &validator{report: Report{Counts: make(map[string]int)}}
	if opts != nil {
		v.opts = *opts
	}
	v.begin()
	defer v.release()
	text, err := infile.Text(bufio.NewReaderSize(r, 256<<10))
	if err != nil {
		return v.report, fmt.Errorf("dftracer: validate: %w", err)
	}
	var src infile.Lines
	src.Reset(text, v.opts.Stop)
	for v.failed == nil {
		line, err := src.Next()
		if errors.Is(err, infile.ErrLongLine) {
			v.long(err)
			continue
		}
		if err != nil {
			if rest, err := src.Rest(); err != nil {
				v.long(err)
			} else if len(rest) > 0 {
				v.line(rest, false)
			}
			var st ReadStats
			if err := st.end(err); !errors.Is(err, io.EOF) {
				return v.report, err
			}
			if st.Torn {
				v.whole("the gzip stream is damaged or cut", "the gzip stream is damaged or cut: %v", st.Cause)
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

func (v *validator) long(err error) {
	v.report.Lines++
	v.problem("line is too long", "%v", err)
}

// ValidateFile is Validate for a file.
func ValidateFile(path string, opts *ValidateOptions) (Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return Report{}, fmt.Errorf("dftracer: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	return Validate(f, opts)
}

type validator struct {
	opts   ValidateOptions
	report Report
	parser parser
	event  Event
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

func (v *validator) record(ev *Event, line []byte) {
	v.report.Counts[ev.Cat+"/"+ev.Name+"/"+ev.Phase.String()]++
	v.report.Dialect = guessDialect(line, ev, v.report.Dialect)
	if len(v.heads) < 8 {
		v.heads = append(v.heads, ev.Name)
	}
	if v.ended && !v.opts.AllowForeign {
		v.problem("record after the end event", "%s follows the end event", ev.Name)
	}
	if ev.Phase != PhaseComplete {
		v.define(&known{kind: defFact, id: ev.ID, line: v.report.Lines})
		v.fact(ev)
		return
	}
	v.report.Events++
	framing := ev.Cat == CatDFTracer && (ev.Name == NameStart || ev.Name == NameEnd)
	if !framing {
		v.report.Spans++
	}
	if framing && ev.Name == NameEnd {
		v.ended = true
		_, part := ev.Arg("continued")
		if a, ok := ev.Arg(argLost); ok { // the sum of what the gaps say, and what no gap could say
			v.report.Lost = max(v.report.Lost, int(a.Int64()))
		}
		v.loose = v.loose || part
	}
	delete(v.open, ev.ID)
	k := known{kind: defSpan, id: ev.ID, parent: ev.Parent, line: v.report.Lines, start: ev.TS, end: ev.End(), level: ev.Level}
	v.define(&k)
	v.refer(&k)
	if !framing && ev.TID != 0 { // 0: thread ids are off
		v.place(&k, lane{ev.PID, ev.TID})
	}
}

func (v *validator) fact(ev *Event) {
	if ev.Phase != PhaseMetadata {
		v.report.Events++
		v.report.Counters++
		return
	}
	v.report.Metadata++
	if b, ok := beginOf(ev); ok {
		if v.open == nil {
			v.open = make(map[uint64]bool)
		}
		v.open[b.ID] = true
	}
	key, value := ev.Meta()
	if ev.Name != NameCustom {
		return
	}
	switch key {
	case KeyPart:
		v.loose = true
	case KeyEventsLost:
		n := String("", value)
		v.report.Lost += int(n.Int64())
	}
}

func (v *validator) finish() {
	v.report.Open = len(v.open)
	v.report.Lanes = len(v.lanes)
	v.loose = v.loose || v.report.Lost > 0 // a lost event may be a parent
	twice, parents := v.relatives()
	v.insert(twice)
	if !v.opts.AllowForeign {
		v.framing()
	}
	v.append(parents)
	if !v.opts.AllowForeign {
		v.append(v.overlaps())
	}
}

func (v *validator) framing() {
	brackets := v.report.Dialect != V22
	if brackets && !v.opened {
		v.whole("the first line is not an opening bracket", "the first line is not an opening bracket")
	}
	if !v.opts.AllowUnfinished {
		if !v.ended {
			v.whole("there is no end event", "there is no end event")
		}
		if brackets && !v.closed {
			v.whole("there is no closing bracket", "there is no closing bracket")
		}
	}
	want := []string{NameHostHash, NameThreadName}
	if v.report.Dialect == V22 {
		want = append(want, NameCustom)
	}
	withArgs := want
	if v.report.Dialect != V1 {
		withArgs = append(slices.Clone(want), NameFileHash)
	}
	withArgs = append(slices.Clone(withArgs), NameStringHash, NameStringHash, NameStart)
	if !hasPrefix(v.heads, withArgs) && !hasPrefix(v.heads, append(slices.Clone(want), NameStart)) {
		v.whole("unexpected first records", "the first records are %v", v.heads)
	}
}

func hasPrefix(have, want []string) bool {
	return len(have) >= len(want) && slices.Equal(have[:len(want)], want)
}
