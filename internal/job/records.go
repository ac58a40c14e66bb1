package job

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"hash/fnv"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/extsort"
	"github.com/trainspan/trainspan/internal/platform/filetime"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
)

// readRecords reads a file of JSON lines. Its reader must be closed.
func readRecords(path string, arguments bool) (*recordReader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	text, err := fsread.Text(bufio.NewReaderSize(f, 256<<10))
	if err != nil {
		return nil, err
	}
	r := newRecordReader(path)
	r.arguments = arguments
	switch err = r.lines(text); {
	case fsread.Torn(err):
		r.torn = err
	case !errors.Is(err, io.EOF):
		return nil, errors.Join(err, r.spans.Close())
	}
	r.judge()
	for _, p := range r.order {
		p.split()
	}
	if r.failed != nil {
		return nil, errors.Join(r.failed, r.spans.Close())
	}
	return r, nil
}

// lines reads all lines. A line that is too long is skipped.
func (r *recordReader) lines(text io.Reader) error {
	var in fsread.Lines
	in.Reset(text, nil)
	for {
		line, err := in.Line()
		switch {
		case errors.Is(err, fsread.ErrLongLine):
			r.bad++
		case err != nil:
			return err
		default:
			r.line(line)
		}
	}
}

// judge drops spans too far from the other times of the file, and those that
// ended before they began.
func (r *recordReader) judge() {
	for _, p := range r.order {
		for _, s := range p.open {
			p.done(&s)
		}
		for _, end := range p.ends { // their starts are lost
			p.done(&end)
		}
		p.open, p.ends, p.known, p.fails = nil, nil, nil, nil
	}
	median := r.times.Median()
	r.times = filetime.With(time.Nanosecond, median)
	for _, p := range r.order {
		p.relative = median < earliest
		times := len(p.events) + len(p.lives)
		p.events = slices.DeleteFunc(p.events, func(e Event) bool { return !r.times.Near(e.Time) })
		if p.spanned || times > len(p.lives) {
			p.lives = slices.DeleteFunc(p.lives, func(t int64) bool { return !r.times.Near(t) })
		}
		p.aside = times - len(p.events) - len(p.lives)
	}
}

func (r *recordReader) line(line []byte) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return
	}
	var rec record
	if err := json.Unmarshal(line, &rec); err != nil {
		// one-logger writes NaN and infinities bare.
		if clean := tracefile.Strict(line); clean == nil || json.Unmarshal(clean, &rec) != nil {
			r.bad++
			return
		}
	}
	key := writer{pid: rec.PID, rank: -1}
	if rec.Rank != nil {
		key.rank = *rec.Rank
	}
	p := r.writers[key]
	if p == nil {
		p = &recordProcess{
			recordReader: r, group: uint32(len(r.order)), key: key, ranked: rec.Rank != nil,
			open: make(map[uint64]heldSpan), ends: make(map[uint64]heldSpan), known: make(map[uint64]int64), fails: make(map[uint64]int),
		}
		r.writers[key] = p
		r.order = append(r.order, p)
	}
	if rec.Attempt != nil {
		p.number = rec.Attempt
	}
	switch rec.Type {
	case "start":
		p.begun++
		p.start(&rec)
	case "stop":
		p.stop(&rec)
	case "complete":
		p.start(&rec)
		p.stop(&rec)
		p.begun++
	case "event":
		if rec.Event != nil && rec.Event.Name == spans.EventSaveCheckpointSuccess {
			delete(p.fails, spanID(rec.SpanID))
		}
		p.event(&rec)
	case "application_error":
		p.fail(spanID(rec.SpanID))
		p.event(&rec)
	case "heartbeat":
		if t := rec.Event.time(); t > 0 {
			p.lives = append(p.lives, t)
			p.inits = append(p.inits, *rec.Event)
		}
	case "telemetry_data_error":
	default:
		r.bad++
	}
}

// time returns the time of an event in nanoseconds, or 0.
func (e *recordEvent) time() int64 {
	if e == nil {
		return 0
	}
	ms := e.Attributes.get("timestamp_msec").Int64()
	if ms <= 0 || ms > 9e12 {
		return 0
	}
	return ms * 1e6
}

// spanID converts an id to a number: the value itself if it is 64 bits in hex.
func spanID(id string) uint64 {
	if id == "" {
		return 0
	}
	if len(id) == 16 {
		if n, err := strconv.ParseUint(id, 16, 64); err == nil && n != 0 {
			return n
		}
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return h.Sum64() | 1
}

func (p *recordProcess) span(rec *record, s *heldSpan) {
	s.ID, s.Parent = spanID(rec.ID), spanID(rec.ParentID)
	cat, event := tracefile.Str(rec.Attributes.get(spans.AttrCategory)), tracefile.Str(rec.Attributes.get(spans.AttrName))
	if cat+event != "" {
		cat, event = vocab.TraceName("", rec.Name, cat, event)
	} else {
		event = rec.Name
	}
	s.mean(cat, p.names.Of(cat, event))
	s.Nested = rec.ParentID == "" && rec.Rank == nil // one-logger writes no parents
	s.Step, s.First, s.Epoch = Unknown, Unknown, Unknown
	for i := range rec.Attributes {
		a := &rec.Attributes[i]
		if tracefile.KindOf(*a) != tracefile.KindRaw {
			s.argument(a)
		}
		if p.arguments && a.Key != argDuration && a.Key != spans.AttrCategory && a.Key != spans.AttrName {
			s.args = append(s.args, *a)
		}
	}
	slices.SortFunc(s.args, byKey)
}

// argDuration is the length in a stop record; the times have it as well.
const argDuration = "duration_msec"

func byKey(a, b dftracer.Arg) int { return cmp.Compare(a.Key, b.Key) }

func (p *recordProcess) start(rec *record) {
	at := rec.StartEvent.time()
	if at == 0 || rec.ID == "" {
		return
	}
	s := heldSpan{Span: Span{Start: at, End: NoEnd}}
	p.span(rec, &s)
	if _, twice := p.open[s.ID]; twice {
		return
	}
	if was, twice := p.known[s.ID]; twice && was == at {
		return
	}
	if end, ok := p.ends[s.ID]; ok {
		delete(p.ends, s.ID)
		p.close(&s, &end)
		return
	}
	p.open[s.ID] = s
}

func (p *recordProcess) stop(rec *record) {
	at := rec.StopEvent.time()
	if at == 0 || rec.ID == "" {
		return
	}
	end := heldSpan{Span: Span{Start: at, End: at}}
	if ms := rec.Attributes.get(argDuration).Int64(); ms >= 0 && ms < 1e13 {
		end.Start = at - ms*1e6
	}
	p.span(rec, &end)
	if s, ok := p.open[end.ID]; ok {
		delete(p.open, end.ID)
		p.close(&s, &end)
		return
	}
	if _, twice := p.known[end.ID]; !twice {
		p.ends[end.ID] = end
	}
}

// maxKnown bounds the memory for detecting copies of records.
const maxKnown = 1 << 20

func (p *recordProcess) close(s, end *heldSpan) {
	s.End = end.End
	s.Step, s.First, s.Epoch, s.Tokens = max(s.Step, end.Step), max(s.First, end.First), max(s.Epoch, end.Epoch), max(s.Tokens, end.Tokens)
	s.Device, s.DeviceComm, s.Background = max(s.Device, end.Device), max(s.DeviceComm, end.DeviceComm), s.Background || end.Background
	at, failed := p.fails[s.ID]
	s.Async, s.Failed = s.Async || end.Async, s.Failed || end.Failed || failed && at == p.begun
	delete(p.fails, s.ID)
	s.args = append(end.args, s.args...)
	slices.SortStableFunc(s.args, byKey)
	s.args = slices.CompactFunc(s.args, func(a, b dftracer.Arg) bool { return a.Key == b.Key })
	if end.Launch != 0 {
		s.Launch = s.Start - (end.Start - end.Launch)
	}
	if len(p.known) < maxKnown {
		p.known[s.ID] = s.Start
	}
	p.done(s)
}

// fail notes an error of a span, whose end comes later. The span failed unless the program went on after the error:
// began another span, or completed the save.
func (p *recordProcess) fail(id uint64) {
	if _, over := p.known[id]; id != 0 && !over && len(p.fails) < maxKnown {
		p.fails[id] = p.begun
	}
}

func (p *recordProcess) event(rec *record) {
	at := rec.Event.time()
	if at == 0 {
		return
	}
	e := Event{Name: rec.Event.Name, Time: at, Span: spanID(rec.SpanID), Through: Unknown}
	e.Step = Unknown
	e.arguments(rec.Event.Attributes)
	p.times.Has(at)
	p.events = append(p.events, e)
	if e.Name == spans.EventOneLoggerInitialization {
		p.inits = append(p.inits, *rec.Event)
	}
}

// split makes the processes that shared a process id, one for each application.
func (p *recordProcess) split() {
	p.eachSpan(func(s *heldSpan) {
		if s.Name == spans.Application && (len(p.starts) == 0 || p.starts[len(p.starts)-1] != s.Start) {
			p.starts = append(p.starts, s.Start)
		}
	})
	p.parts = make([]*records, max(len(p.starts), 1))
	for i := range p.parts {
		proc := newProcess()
		p.parts[i] = &records{proc: proc}
		proc.PID, proc.Sources, proc.Bad, proc.Torn = p.key.pid, []string{p.path}, p.bad, p.torn != nil
		proc.tear(p.path, proc.Torn, p.torn)
		proc.RelativeClock = p.relative
		if p.ranked {
			proc.sayNumber(identity.Line, identity.Rank, p.key.rank)
		}
		if p.number != nil && len(p.parts) == 1 {
			proc.sayNumber(identity.Line, identity.Attempt, *p.number)
		}
		proc.named(p.path)
	}
	left := p.aside + p.eachSpan(func(s *heldSpan) {
		of := p.processAt(s.Start).proc
		of.Spans++
		of.take(&s.Span)
	})
	p.parts[0].proc.Aside = left
	for i := range p.events {
		x := p.processAt(p.events[i].Time)
		x.proc.widen(p.events[i].Time)
		x.events = append(x.events, p.events[i])
	}
	for _, t := range p.lives {
		x := p.processAt(t)
		x.proc.widen(t)
		x.proc.Heartbeats = true
	}
	for i := range p.inits {
		p.processAt(p.inits[i].time()).proc.attributes(p.inits[i].Attributes)
	}
}

// processAt returns the process at a time.
func (p *recordProcess) processAt(t int64) *records {
	i, found := slices.BinarySearch(p.starts, t)
	if !found {
		i--
	}
	return p.parts[max(i, 0)]
}

// sameTraces finds the trace of the process that wrote the records: the same
// process id, rank and attempt, begun at about the same time. The nearest start
// decides, because a container that restarts has the same process id again.
func (x *records) sameTraces(traces []*group) (out *group) {
	least := int64(60e9)
	for _, g := range traces {
		if g.owner.PID != x.proc.PID || g.start == Unknown ||
			g.who.RankKnown && x.proc.RankKnown && g.who.Rank != x.proc.Rank ||
			g.who.AttemptKnown && x.proc.AttemptKnown && g.who.Attempt != x.proc.Attempt {
			continue
		}
		if apart := max(x.proc.Start-g.start, g.start-x.proc.Start); apart < least {
			out, least = g, apart
		}
	}
	return out
}

// records is the content of a file of JSON lines about one process.
type records struct {
	proc   *Process
	events []Event
}

// record is one line in one-logger's grammar, by this library or one-logger.
// The fields after pid are this library's.
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

// writer identifies a process of one file.
type writer struct {
	pid  int64
	rank int
}

// recordReader assembles the records of a file.
type recordReader struct {
	path    string
	spans   *extsort.Sorter[heldSpan] // of all processes, by writer and time
	times   *filetime.Judge           // of span starts and events
	failed  error                     // of a temporary file
	writers map[writer]*recordProcess
	order   []*recordProcess
	bad     int
	torn    error // the error of a torn gzip stream

	arguments bool // they are kept
}

// recordProcess is the output of one writer: a process, or several that had the
// same process id one after the other.
type recordProcess struct {
	*recordReader
	group  uint32
	events []Event
	key    writer
	open   map[uint64]heldSpan // spans without an end, by id
	ends   map[uint64]heldSpan // ends whose start has not come
	lives  []int64             // heartbeats
	known  map[uint64]int64    // start of ended spans, to detect copies
	fails  map[uint64]int      // errors of spans without an end: how many spans had begun
	begun  int                 // records of begins and of whole spans
	inits  []recordEvent       // with their times
	ranked bool
	number *int

	aside    int  // spans that judge dropped
	spanned  bool // it has spans
	relative bool
	names    vocab.Book

	starts []int64    // of the applications
	parts  []*records // one per process
}

// heldSpan is a span of a writer.
type heldSpan struct {
	Span
	group uint32
	args  []dftracer.Arg // if they are requested
}
