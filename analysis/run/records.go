package run

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"hash/fnv"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/klauspost/compress/gzip"

	"github.com/trainspan/trainspan/spans"
)

// records is what a file of JSON lines says of one process.
type records struct {
	proc   *Process
	spans  []Span
	events []Event
}

// record is one line of a file in the one-logger grammar, ours or the
// reference's. Ours have what follows pid.
type record struct {
	Type       string         `json:"type"`
	ID         string         `json:"id"`
	SpanID     string         `json:"span_id"`
	Name       string         `json:"name"`
	Attributes map[string]any `json:"attributes"`
	StartEvent *recordEvent   `json:"start_event"`
	StopEvent  *recordEvent   `json:"stop_event"`
	Event      *recordEvent   `json:"event"`
	Error      *recordEvent   `json:"error"`
	PID        int64          `json:"pid"`
	Rank       *int           `json:"rank"`
	Attempt    *int           `json:"attempt"`
	ParentID   string         `json:"parent_id"`
}

type recordEvent struct {
	Name       string         `json:"name"`
	Attributes map[string]any `json:"attributes"`
}

// writer tells the processes of one file apart.
type writer struct {
	pid  int64
	rank int
}

// recordReader puts the records of a file together.
type recordReader struct {
	writers map[writer]*recordProcess
	order   []*recordProcess
	bad     int
	torn    bool
}

// recordProcess is what one writer wrote: a process, or several that had the
// same number one after the other.
type recordProcess struct {
	records
	key    writer
	open   map[string]int   // index in spans, by id, of those without an end
	ends   map[string]Span  // ends whose start has not come
	lives  []int64          // heartbeats
	known  map[string]int64 // start of spans that ended, to drop copies
	inits  []recordEvent    // with their times
	rank   int
	number *int
}

// maxRecord bounds the memory that a line may take.
const maxRecord = 16 << 20

// readRecords reads a file of JSON lines and gives its processes by start.
func readRecords(path string) ([]*records, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	br := bufio.NewReaderSize(f, 256<<10)
	var text io.Reader = br
	if magic, _ := br.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(br)
		if err != nil {
			return nil, err
		}
		text = z
	}
	r := &recordReader{writers: make(map[writer]*recordProcess)}
	lines := bufio.NewScanner(text)
	lines.Buffer(make([]byte, 0, 64<<10), maxRecord)
	for lines.Scan() {
		r.line(lines.Bytes())
	}
	switch err := lines.Err(); {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, gzip.ErrChecksum), errors.Is(err, bufio.ErrTooLong):
		r.torn = true
	case err != nil:
		return nil, err
	}
	var out []*records
	for _, p := range r.order {
		out = append(out, p.split(path, r)...)
	}
	slices.SortStableFunc(out, func(a, b *records) int { return cmp.Compare(a.proc.Start, b.proc.Start) })
	return out, nil
}

func (r *recordReader) line(line []byte) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return
	}
	var rec record
	if err := json.Unmarshal(line, &rec); err != nil {
		// The reference writes NaN and the infinities bare.
		if clean := strict(line); clean == nil || json.Unmarshal(clean, &rec) != nil {
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
			key: key, open: make(map[string]int), ends: make(map[string]Span), known: make(map[string]int64), rank: key.rank,
		}
		r.writers[key] = p
		r.order = append(r.order, p)
	}
	if rec.Attempt != nil {
		p.number = rec.Attempt
	}
	switch rec.Type {
	case "start":
		p.start(&rec)
	case "stop":
		p.stop(&rec)
	case "complete":
		p.start(&rec)
		p.stop(&rec)
	case "event", "application_error":
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

// strict replaces the words that JSON does not know by null, or returns nil.
func strict(line []byte) []byte {
	var out []byte
	quoted, from := false, 0
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == 'N' || c == 'I' || c == '-'):
			for _, word := range []string{"NaN", "Infinity", "-Infinity"} {
				if bytes.HasPrefix(line[i:], []byte(word)) {
					out = append(append(out, line[from:i]...), "null"...)
					i += len(word) - 1
					from = i + 1
					break
				}
			}
		}
	}
	if from == 0 {
		return nil
	}
	return append(out, line[from:]...)
}

// time is the time of an event in nanoseconds, 0 without one.
func (e *recordEvent) time() int64 {
	if e == nil {
		return 0
	}
	ms, ok := e.Attributes["timestamp_msec"].(float64)
	if !ok || ms <= 0 || ms > 9e12 {
		return 0
	}
	return int64(ms) * 1e6
}

func integer(attributes map[string]any, key string) int64 {
	if v, ok := attributes[key].(float64); ok && v >= 0 && v < 1<<53 {
		return int64(v)
	}
	return Unknown
}

// spanID makes a number of an id: the text itself where it is 64 bits in hex.
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

func (rec *record) span(s *Span) {
	s.ID, s.Parent, s.Name = spanID(rec.ID), spanID(rec.ParentID), rec.Name
	s.Nested = rec.ParentID == "" && rec.Rank == nil // the reference says no parents
	s.Step, s.First = integer(rec.Attributes, argIteration), integer(rec.Attributes, argFirst)
	if s.Step == Unknown {
		s.Step = integer(rec.Attributes, argStep)
	}
	s.Tokens = max(integer(rec.Attributes, argTokens), 0)
	if s.Tokens == 0 {
		s.Tokens = max(integer(rec.Attributes, argSamples), 0)
	}
	s.Group, _ = rec.Attributes[argGroup].(string)
	s.GroupSize = int(max(integer(rec.Attributes, argGroupSize), 0))
	if hasRole(s.Name) {
		for _, key := range [...]string{argRole, argStage, argPPRank, argExperts} {
			if v, ok := rec.Attributes[key]; ok {
				s.addRole(key, fmt.Sprint(v))
			}
		}
	}
}

func (p *recordProcess) start(rec *record) {
	at := rec.StartEvent.time()
	if at == 0 || rec.ID == "" {
		return
	}
	s := Span{End: NoEnd}
	rec.span(&s)
	s.Start = at
	if _, twice := p.open[rec.ID]; twice {
		return
	}
	if was, twice := p.known[rec.ID]; twice && was == at {
		return
	}
	if end, ok := p.ends[rec.ID]; ok {
		delete(p.ends, rec.ID)
		p.close(rec.ID, &s, &end)
		p.spans = append(p.spans, s)
		return
	}
	p.open[rec.ID] = len(p.spans)
	p.spans = append(p.spans, s)
}

func (p *recordProcess) stop(rec *record) {
	at := rec.StopEvent.time()
	if at == 0 || rec.ID == "" {
		return
	}
	end := Span{End: at}
	rec.span(&end)
	if ms, ok := rec.Attributes["duration_msec"].(float64); ok && ms >= 0 && ms < 1e13 {
		end.Start = at - int64(ms)*1e6
	} else {
		end.Start = at
	}
	if i, ok := p.open[rec.ID]; ok {
		delete(p.open, rec.ID)
		p.close(rec.ID, &p.spans[i], &end)
		return
	}
	if _, twice := p.known[rec.ID]; !twice {
		p.ends[rec.ID] = end
	}
}

// maxKnown bounds the memory for dropping copies of records.
const maxKnown = 1 << 20

func (p *recordProcess) close(id string, s, end *Span) {
	s.End = max(end.End, s.Start)
	s.Step, s.First, s.Tokens = max(s.Step, end.Step), max(s.First, end.First), max(s.Tokens, end.Tokens)
	if len(p.known) < maxKnown {
		p.known[id] = s.Start
	}
}

func (p *recordProcess) event(rec *record) {
	at := rec.Event.time()
	if at == 0 {
		return
	}
	e := Event{Name: rec.Event.Name, Time: at, Span: spanID(rec.SpanID), Through: Unknown}
	e.Step = integer(rec.Event.Attributes, argIteration)
	e.through(integer(rec.Event.Attributes, argProductive))
	p.events = append(p.events, e)
	if e.Name == spans.EventOneLoggerInitialization {
		p.inits = append(p.inits, *rec.Event)
	}
}

// split gives the processes that shared a number, one for each application.
func (p *recordProcess) split(path string, r *recordReader) []*records {
	for _, end := range p.ends { // their starts are lost
		p.spans = append(p.spans, end)
	}
	slices.SortFunc(p.spans, func(a, b Span) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.ID, b.ID)) })
	var starts []int64
	for i := range p.spans {
		if p.spans[i].Name == spans.Application {
			starts = append(starts, p.spans[i].Start)
		}
	}
	slices.Sort(starts)
	starts = slices.Compact(starts)
	out := make([]*records, max(len(starts), 1))
	for i := range out {
		out[i] = &records{proc: newProcess()}
		proc := out[i].proc
		proc.PID, proc.Sources, proc.Bad, proc.Torn = p.key.pid, []string{path}, r.bad, r.torn
		if p.rank >= 0 {
			proc.Rank, proc.RankKnown = p.rank, true
		}
		if p.number != nil && len(out) == 1 {
			proc.Attempt, proc.AttemptKnown = *p.number+1, true
		}
	}
	of := func(t int64) *records {
		i, found := slices.BinarySearch(starts, t)
		if !found {
			i--
		}
		return out[max(i, 0)]
	}
	for i := range p.spans {
		x := of(p.spans[i].Start)
		x.proc.take(&p.spans[i])
		x.spans = append(x.spans, p.spans[i])
	}
	for i := range p.events {
		x := of(p.events[i].Time)
		x.proc.seen(p.events[i].Time)
		x.events = append(x.events, p.events[i])
	}
	for _, t := range p.lives {
		x := of(t)
		x.proc.seen(t)
		x.proc.Heartbeats = true
	}
	for i := range p.inits {
		of(p.inits[i].time()).proc.initialization(p.inits[i].Attributes)
	}
	for _, x := range out {
		if !x.proc.RankKnown {
			if n := rankOf(path); n >= 0 {
				x.proc.Rank, x.proc.RankKnown = n, true
			}
		}
	}
	return slices.DeleteFunc(out, func(x *records) bool { return x.proc.LastSeen == Unknown })
}

// initialization reads who the process is from the attributes of an event.
func (p *Process) initialization(attributes map[string]any) {
	if n := integer(attributes, argWorldSize); n > 0 {
		p.WorldSize = int(min(n, 1<<30))
	}
	if n := integer(attributes, argRank); n >= 0 && !p.RankKnown {
		p.Rank, p.RankKnown = int(min(n, 1<<30)), true
	}
	if n := integer(attributes, argAttempt); n >= 0 {
		p.Attempt, p.AttemptKnown = int(min(n, 1<<30))+1, true
	}
	for key, to := range map[string]*string{argSession: &p.SessionTag, argJobID: &p.JobID, argNode: &p.Host} {
		if text, ok := attributes[key].(string); ok && text != "" {
			*to = text
		}
	}
}

// twin finds the trace of the process that wrote the records: the same
// number, the same rank, begun at the same time.
func (x *records) twin(traces []*group) *group {
	const apart = 60e9
	for _, g := range traces {
		if g.pid == x.proc.PID && g.start != Unknown && (g.rank < 0 || !x.proc.RankKnown || g.rank == x.proc.Rank) &&
			x.proc.Start-g.start < apart && g.start-x.proc.Start < apart {
			return g
		}
	}
	return nil
}
