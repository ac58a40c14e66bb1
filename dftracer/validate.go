package dftracer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/spill"
)

// ValidateOptions relaxes Validate. The zero value, and nil, are strict.
type ValidateOptions struct {
	// AllowUnfinished accepts a trace without end event and closing bracket,
	// such as that of a running or killed process.
	AllowUnfinished bool
	// AllowMissingParents accepts a p_idx that names no event of the trace.
	// Parts of a rotated trace, recovered traces and those that say themselves
	// that events were lost are always allowed that.
	AllowMissingParents bool
	// AllowOutliving accepts events that end after, or begin before, their parent.
	AllowOutliving bool
	// AllowForeign accepts what other producers do: repeated ids, missing
	// framing, events of one lane that overlap partially.
	AllowForeign bool
	// Memory bounds the bytes held to compare events with each other, 32 MiB
	// when zero. What does not fit is sorted in temporary files in TempDir, the
	// system's own when empty: about 60 bytes per event.
	Memory  int64
	TempDir string
}

// Problem is one defect of a trace.
type Problem struct {
	Line int // counted from 1; 0 when it concerns the whole trace
	Text string
}

// String returns the problem on one line.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.Text
	}
	return fmt.Sprintf("line %d: %s", p.Line, p.Text)
}

// Report is the result of Validate.
type Report struct {
	Dialect  Dialect
	Lines    int // physical lines, an unfinished last one included
	Events   int // complete events and counters
	Metadata int
	Lanes    int            // different pairs of pid and tid that have events
	Open     int            // spans begun and not ended
	Orphans  int            // events whose parent is not in the trace
	Lost     int            // events that the trace itself says are missing
	Counts   map[string]int // "cat/name/ph" to the number of records
	Count    int            // of problems; Problems has the first 100
	Problems []Problem
}

// OK reports whether there was no problem.
func (r *Report) OK() bool { return r.Count == 0 }

// Err returns nil or an error that names the first problems.
func (r *Report) Err() error {
	if r.OK() {
		return nil
	}
	text := make([]string, 0, 10)
	for _, p := range r.Problems[:min(len(r.Problems), 10)] {
		text = append(text, p.String())
	}
	return fmt.Errorf("dftracer: %d problems: %s", r.Count, strings.Join(text, "; "))
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
	text, err := decompress(r)
	if err != nil {
		return v.report, fmt.Errorf("dftracer: validate: %w", err)
	}
	src := lineSource{r: text}
	for v.failed == nil {
		line, err := src.next()
		if errors.Is(err, errLongLine) {
			v.report.Lines++
			v.problem("%v", err)
			continue
		}
		if err != nil {
			if rest := src.rest(); len(rest) > 0 {
				v.line(rest, false)
			}
			var st ReadStats
			if err := st.end(err); !errors.Is(err, io.EOF) {
				return v.report, err
			}
			if st.Torn {
				v.whole("the gzip stream is damaged or cut: %v", st.Cause)
			}
			break
		}
		v.line(line, true)
	}
	v.finish()
	if v.failed != nil {
		return v.report, fmt.Errorf("dftracer: validate: %w", v.failed)
	}
	return v.report, nil
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
	loose  bool // a part of a rotated trace, or recovered
}

func (v *validator) problem(format string, args ...any) { v.add(v.report.Lines, format, args...) }

func (v *validator) whole(format string, args ...any) { v.add(0, format, args...) }

func (v *validator) add(line int, format string, args ...any) {
	v.report.Count++
	if len(v.report.Problems) < maxFirst {
		v.report.Problems = append(v.report.Problems, Problem{line, fmt.Sprintf(format, args...)})
	}
}

func (v *validator) line(line []byte, finished bool) {
	v.report.Lines++
	switch string(line) {
	case "[":
		if v.report.Lines != 1 {
			v.problem("opening bracket is not the first line")
		}
		v.opened = true
		return
	case "]":
		v.closed = true
		if finished && !v.opts.AllowForeign {
			v.problem("closing bracket is not the end of the trace")
		}
		return
	}
	switch {
	case v.closed:
		v.problem("something follows the closing bracket")
	case !finished:
		v.problem("the last record has no line feed")
	case len(line) > maxLine:
		v.problem("line has %d bytes", len(line))
	case len(bytes.TrimSpace(line)) == 0:
		v.problem("line is empty")
		return
	}
	if !json.Valid(line) {
		v.problem("not valid JSON: %.80q", line)
		return
	}
	v.types(line)
	if err := v.parser.parse(line, &v.event); err != nil {
		v.problem("%v", err)
		return
	}
	v.record(&v.event, line)
}

// types checks what the parser is lenient about.
func (v *validator) types(line []byte) {
	var rec struct {
		ID, TS, Dur, Type json.RawMessage
		PID               json.RawMessage `json:"pid"`
		TID               json.RawMessage `json:"tid"`
		Ph                json.RawMessage
		Name, Cat         *string
		Args              map[string]json.RawMessage
	}
	if err := json.Unmarshal(line, &rec); err != nil {
		v.problem("%v", err)
		return
	}
	for _, n := range [...]struct {
		key string
		raw json.RawMessage
	}{{"id", rec.ID}, {"ts", rec.TS}, {"dur", rec.Dur}, {"pid", rec.PID}, {"tid", rec.TID}, {"type", rec.Type}} {
		if n.raw == nil {
			continue
		}
		if _, next, ok := digits(n.raw, 0); !ok || next != len(n.raw) {
			v.problem("%s is %s, not an integer above or equal to 0", n.key, n.raw)
		}
	}
	for _, n := range [...]struct {
		key     string
		missing bool
	}{{"name", rec.Name == nil}, {"cat", rec.Cat == nil}, {"pid", rec.PID == nil}, {"tid", rec.TID == nil}} {
		if n.missing {
			v.problem("%s is missing", n.key)
		}
	}
	complete := string(rec.Ph) == `"X"` || string(rec.Ph) == "1"
	if complete && (rec.TS == nil || rec.Dur == nil || rec.ID == nil) {
		v.problem("id, ts or dur of a complete event is missing")
	}
	if len(rec.Args) > 0 && rec.Args["hhash"] == nil {
		v.problem("args have no hhash")
	}
}

func (v *validator) record(ev *Event, line []byte) {
	v.report.Counts[ev.Cat+"/"+ev.Name+"/"+ev.Phase.String()]++
	v.report.Dialect = guessDialect(line, ev, v.report.Dialect)
	if len(v.heads) < 8 {
		v.heads = append(v.heads, ev.Name)
	}
	if v.ended {
		v.problem("%s follows the end event", ev.Name)
	}
	if ev.Phase != PhaseComplete {
		v.define(&known{kind: defFact, id: ev.ID, line: v.report.Lines})
		v.fact(ev)
		return
	}
	v.report.Events++
	framing := ev.Cat == CatDFTracer && (ev.Name == NameStart || ev.Name == NameEnd)
	if framing && ev.Name == NameEnd {
		v.ended = true
		_, part := ev.Arg("continued")
		_, mended := ev.Arg("recovered")
		if a, ok := ev.Arg(argLost); ok { // the sum of what the gaps say, and what no gap could say
			v.report.Lost = max(v.report.Lost, int(a.Int64()))
		}
		v.loose = v.loose || part || mended
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
		v.whole("the first line is not an opening bracket")
	}
	if !v.opts.AllowUnfinished {
		if !v.ended {
			v.whole("there is no end event")
		}
		if brackets && !v.closed {
			v.whole("there is no closing bracket")
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
		v.whole("the first records are %v", v.heads)
	}
}

func hasPrefix(have, want []string) bool {
	return len(have) >= len(want) && slices.Equal(have[:len(want)], want)
}
