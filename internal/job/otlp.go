package job

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/platform/otlpform"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/otlpspan"
	"github.com/trainspan/trainspan/internal/tracefile/place"
	"golang.org/x/sync/errgroup"
)

const (
	// maxExported bounds the memory for detecting copies of spans.
	maxExported = 1 << 22
	// maxObjects bounds the objects in one line, because each takes memory.
	maxObjects = 1 << 21
	// batchText is how much text is decoded at a time by several goroutines.
	batchText = 4 << 20
)

// otlpReader converts the spans in OTLP files to the trace events that a
// receiver would write for them.
type otlpReader struct {
	workers int
	stop    func() error
	names   place.Names
	procs   map[otlpOwner]*otlpProcess
	seen    map[[2]uint64]struct{} // spans, and events that came as spans
	own     map[uint64]uint64      // the span of a segment
	long    []*longSpan
	ofLong  map[[2]uint64]*longSpan
	path    string
	signals int // lines of log records or metrics
}

// otlpOwner identifies a process in OTLP files.
type otlpOwner struct {
	place.Sender
	attempt      int
	job, session string
}

// otlpProcess is one process.
type otlpProcess struct {
	hash  string
	pid   int64
	conv  otlpspan.Converter
	path  string // the last file with it
	begun bool
}

// longSpan is a span that may come in several segments.
type longSpan struct {
	ev    dftracer.Event
	first int64 // the lowest index of a segment
	last  int64
	final bool
}

func newOTLPReader(workers int, stop func() error) *otlpReader {
	return &otlpReader{workers: workers, stop: stop, procs: make(map[otlpOwner]*otlpProcess), seen: make(map[[2]uint64]struct{}),
		own: make(map[uint64]uint64), ofLong: make(map[[2]uint64]*longSpan)}
}

// readExported reads the OTLP files of the group.
func (t *traceReader) readExported() (failed error) {
	o := newOTLPReader(max(t.group.workers, 1), t.stopped)
	t.exported = o
	defer func() { t.exported = nil }()
	for _, path := range t.group.paths {
		o.findSegments(path)
	}
	for _, path := range t.group.paths {
		failed = errors.Join(failed, t.file(path))
	}
	for _, l := range o.long {
		if !l.final {
			l.ev.Args = append(l.ev.Args, dftracer.Int(argTruncated, 1))
		}
		p := t.process(&l.ev)
		if p.raw != nil {
			p.raw(&l.ev)
		}
		t.take(p, &l.ev)
	}
	return failed
}

// otlpLine is a line of a file.
type otlpLine struct {
	text  []byte
	spans []otlpspan.ResourceSpans
	err   error
	torn  bool // it has no line feed
}

var (
	errNoOTLP      = errors.New("not OTLP")
	errManyObjects = fmt.Errorf("a line has more than %d objects", maxObjects)
)

func (l *otlpLine) decode() {
	if bytes.Count(l.text, []byte("{")) > maxObjects {
		l.err = errManyObjects
		return
	}
	var request []byte
	if request, l.err = otlpform.ProtobufOfJSON(l.text); l.err == nil {
		l.spans = otlpspan.Resources(request)
	}
	if l.err == nil && len(l.spans) == 0 && !bytes.Contains(l.text, []byte(`"resource`)) {
		l.err = errNoOTLP
	}
}

// lines decodes the wanted lines of a file, several at a time, and passes them
// to take in order. It returns the error that ended the text, or nil.
func (o *otlpReader) lines(path string, wanted func([]byte) bool, take func(*otlpLine) error) error {
	f, err := fsread.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	var in fsread.Lines
	in.Reset(f, o.stop)
	var batch []otlpLine
	size := 0
	flush := func() error {
		var g errgroup.Group
		g.SetLimit(o.workers)
		for i := range batch {
			if batch[i].err == nil {
				g.Go(func() error { batch[i].decode(); return nil })
			}
		}
		_ = g.Wait() // no function returns an error
		for i := range batch {
			if err := take(&batch[i]); err != nil {
				return err
			}
		}
		clear(batch)
		batch, size = batch[:0], 0
		return nil
	}
	add := func(l otlpLine) error {
		if l.text = bytes.TrimSpace(l.text); l.err == nil && (len(l.text) == 0 || !wanted(l.text)) {
			return nil
		}
		l.text = bytes.Clone(l.text)
		batch = append(batch, l)
		if size += len(l.text); size >= batchText || len(batch) >= 4*o.workers {
			return flush()
		}
		return nil
	}
	for {
		line, end := in.Next()
		switch {
		case errors.Is(end, fsread.ErrLongLine):
			if err := add(otlpLine{err: end}); err != nil {
				return err
			}
			continue
		case end == nil:
			if err := add(otlpLine{text: line}); err != nil {
				return err
			}
			continue
		}
		rest, long := in.Rest()
		if err := add(otlpLine{text: rest, err: long, torn: true}); err != nil {
			return err
		}
		if err := flush(); err != nil {
			return err
		}
		if errors.Is(end, io.EOF) {
			return nil
		}
		return end
	}
}

// findSegments notes the spans of the segments in a file, because spans below a
// segment come before it. Errors of the file are reported when it is read
// again.
func (o *otlpReader) findSegments(path string) {
	_ = o.lines(path, func(text []byte) bool { return bytes.Contains(text, []byte(otlpform.SegmentOf)) }, func(l *otlpLine) error {
		for i := range l.spans {
			for src := range l.spans[i].Spans() {
				of := otlpspan.Resource(src.Attributes).Text(otlpform.SegmentOf)
				if raw, err := hex.DecodeString(of); err == nil && len(raw) == 8 {
					o.own[spanNumber(src.SpanID)] = spanNumber(raw)
				}
			}
		}
		return nil
	})
}

// read passes the events of one file to take, with several processes mixed.
func (o *otlpReader) read(path string, take func(*dftracer.Event) error) (st dftracer.ReadStats, err error) {
	signals := o.signals
	o.path = path
	err = o.lines(path, func([]byte) bool { return true }, func(l *otlpLine) error {
		switch {
		case l.err != nil && l.torn:
			st.Torn = true
		case l.err != nil:
			st.Bad++
		case len(l.spans) == 0:
			if !bytes.Contains(l.text, []byte(`"resourceSpans"`)) {
				o.signals++
			}
		}
		if l.err == nil {
			for i := range l.spans {
				n, err := o.resource(&l.spans[i], take)
				st.Events += n
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
	switch {
	case fsread.Torn(err):
		st.Torn, st.Cause, err = true, err, nil
	case err == nil && st.Events == 0 && o.signals > signals:
		err = fmt.Errorf("%w: %s of OTLP log records or metrics, without spans", ErrForeign, display.Plural(o.signals-signals, "line"))
	case err == nil && st.Events == 0 && st.Bad > 0:
		err = errors.New("no line has OTLP spans")
	}
	return st, err
}

// takeSignals returns how many lines with other signals were read since the
// last call.
func (o *otlpReader) takeSignals() int {
	n := o.signals
	o.signals = 0
	return n
}

// resource passes the events of one resource's spans to take.
func (o *otlpReader) resource(rs *otlpspan.ResourceSpans, take func(*dftracer.Event) error) (n int, err error) {
	p := o.process(rs)
	emit := func(ev *dftracer.Event) {
		if err == nil {
			ev.PID, ev.HostHash = p.pid, p.hash
			err = take(ev)
			n++
		}
	}
	if p.path != o.path { // each file is one of its sources, also if it only has copies
		p.path = o.path
		p.begin(rs, emit)
	}
	for src, scope := range rs.Spans() {
		o.span(p, src, scope, emit)
	}
	return n, err
}

// process returns the process of a resource.
func (o *otlpReader) process(rs *otlpspan.ResourceSpans) *otlpProcess {
	id := rs.Resource.Identity()
	owner := otlpOwner{place.SenderOf(&id, identity.UnknownHost, 0), id.Attempt.Or(-1), id.Job, id.Session}
	owner.Service = ""
	p := o.procs[owner]
	if p == nil {
		h := fnv.New64a()
		_, _ = fmt.Fprintf(h, "%+v", owner)
		p = &otlpProcess{hash: fmt.Sprintf("%016x", h.Sum64()), pid: int64(owner.PID)}
		p.conv = otlpspan.Converter{Names: &o.names, Limits: place.Limits{}.OrDefault(), Cut: func(place.Cut) {}}
		o.procs[owner] = p
	}
	return p
}

// begin emits the records about a process with which its trace would begin.
func (p *otlpProcess) begin(rs *otlpspan.ResourceSpans, emit func(*dftracer.Event)) {
	first := uint64(math.MaxInt64)
	for src := range rs.Spans() {
		if src.Start > 0 {
			first = min(first, src.Start)
		}
	}
	id := rs.Resource.Identity()
	host := cmp.Or(id.Host, identity.UnknownHost)
	emit(&dftracer.Event{Phase: dftracer.PhaseMetadata, Cat: dftracer.CatDFTracer, Name: tracefile.NameHostHash, Parent: dftracer.NoParent,
		Args: []dftracer.Arg{dftracer.String("name", host), dftracer.String("value", p.hash)}})
	if p.begun {
		return
	}
	p.begun = true
	if id.Rank.IsSet() {
		emit(&dftracer.Event{Phase: dftracer.PhaseMetadata, Cat: dftracer.CatDFTracer, Name: tracefile.NameProcess, Parent: dftracer.NoParent,
			Args: []dftracer.Arg{dftracer.String("name", argRank), dftracer.String("value", strconv.Itoa(id.Rank.Get()))}})
	}
	if first == math.MaxInt64 {
		return
	}
	start := dftracer.Event{Phase: dftracer.PhaseComplete, Cat: dftracer.CatDFTracer, Name: tracefile.NameStart, TS: otlpspan.Micros(first), Parent: dftracer.NoParent}
	for f, n := range map[identity.Field]int{identity.WorldSize: id.WorldSize.Or(-1), identity.Attempt: id.Attempt.Or(-1), identity.Parent: id.Parent.Or(-1)} {
		if n >= 0 {
			start.Args = append(start.Args, dftracer.Int(f.Word(identity.Start), int64(n)))
		}
	}
	for f, text := range map[identity.Field]string{identity.Job: id.Job, identity.Session: id.Session, identity.Host: id.Host} {
		if text != "" {
			start.Args = append(start.Args, dftracer.String(f.Word(identity.Start), text))
		}
	}
	slices.SortFunc(start.Args, byKey)
	emit(&start)
}

// spanNumber converts an id to a number that is small enough for the parent of
// an event.
func spanNumber(id []byte) uint64 {
	var b [8]byte
	copy(b[:], id)
	if id == nil || b == [8]byte{} {
		return 0
	}
	return max(binary.BigEndian.Uint64(b[:])&math.MaxInt64, 1)
}

// ownNumber returns spanNumber of the span to which an id, or its segment,
// belongs.
func (o *otlpReader) ownNumber(id []byte) uint64 {
	n := spanNumber(id)
	if own, ok := o.own[n]; ok {
		return own
	}
	return n
}

// twice reports whether a key came before, if that is remembered.
func (o *otlpReader) twice(key [2]uint64) bool {
	if _, ok := o.seen[key]; ok {
		return true
	}
	if len(o.seen) < maxExported {
		o.seen[key] = struct{}{}
	}
	return false
}

func hashText(text string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, text)
	return h.Sum64()
}

// span emits a span and its events.
func (o *otlpReader) span(p *otlpProcess, src *otlpspan.Span, scope string, emit func(*dftracer.Event)) {
	at := spanNumber(src.SpanID)
	if event, _, ok := otlpspan.Folded(src, scope); ok {
		e := p.conv.Event(&event)
		o.event(&e, o.ownNumber(src.ParentSpanID), true, emit)
		return
	}
	if at != 0 && o.twice([2]uint64{at, hashText(p.hash)}) {
		return
	}
	s := p.conv.Span(src, scope)
	ev := dftracer.Event{Phase: dftracer.PhaseComplete, ID: o.ownNumber(src.SpanID), Name: tracefile.KeyName(*s.Name), Cat: tracefile.KeyCat(*s.Name),
		TS: s.Start, Dur: s.End - s.Start, Parent: dftracer.NoParent, Level: 1} // without a parent it is a root
	if !s.Parent.IsZero() {
		ev.Parent = int64(o.ownNumber(s.Parent.Span[:]))
	}
	for i := range src.Links {
		if l := &src.Links[i]; otlpspan.Resource(l.Attributes).Text(otlpform.LinkKind) == otlpform.LinkParent {
			ev.Parent = int64(o.ownNumber(l.SpanID))
		}
	}
	index := Unknown
	final := false
	ofFile := strings.EqualFold(ev.Cat, "posix") || strings.EqualFold(ev.Cat, "stdio")
	for _, a := range s.Args {
		switch {
		case a.Key == otlpform.SegmentIndex:
			index = number(&a)
		case a.Key == otlpform.SegmentFinal:
			final = a.Int64() != 0
		case a.Key == otlpform.SegmentOf, a.Key == otlpform.SegmentTrace, a.Key == otlpform.TraceWindow, a.Key == otlpform.TracePart:
		case a.Key == argThread && tracefile.KindOf(a) == tracefile.KindInt:
			ev.TID = a.Int64()
		case a.Key == "file" && ofFile: // the name if it is not a hash
			a.Key = "fhash"
			fallthrough
		default:
			ev.Args = append(ev.Args, a)
		}
	}
	if index == Unknown {
		emit(&ev)
	} else {
		ev.PID, ev.HostHash = p.pid, p.hash
		o.segment(&ev, index, final)
	}
	for i := range s.Events {
		o.event(&s.Events[i], ev.ID, scope == "one_logger", emit)
	}
}

// argThread is the attribute for the thread, or for the lane of a trace.
const argThread = "thread.id"

// segment adds a segment to its span.
func (o *otlpReader) segment(ev *dftracer.Event, index int64, final bool) {
	key := [2]uint64{ev.ID, hashText(ev.HostHash)}
	l := o.ofLong[key]
	if l == nil {
		l = &longSpan{ev: *ev, first: index, last: index, final: final}
		o.ofLong[key] = l
		o.long = append(o.long, l)
		return
	}
	start, end := min(l.ev.TS, ev.TS), max(l.ev.End(), ev.End())
	if index < l.first {
		l.first, l.ev.Parent = index, ev.Parent
	}
	if index > l.last {
		l.last, l.ev.Args = index, ev.Args
	}
	l.final = l.final || final
	l.ev.TS, l.ev.Dur = start, end-start
}

// event emits an event of a span, as its record in a trace. If it may also come
// separately, it is emitted once.
func (o *otlpReader) event(e *place.Event, of uint64, once bool, emit func(*dftracer.Event)) {
	if once && o.twice([2]uint64{hashText(e.Name) ^ of, uint64(e.Time)}) {
		return
	}
	args := make([]dftracer.Arg, 0, len(e.Args)+3)
	args = append(args, dftracer.String("name", e.Name), dftracer.String("value", strconv.FormatInt(e.Time/1000, 10)), dftracer.Int(argSpan, int64(of)))
	for _, a := range e.Args {
		if a.Key == "name" || a.Key == "value" || a.Key == argSpan {
			a.Key = "event." + a.Key
		}
		args = append(args, a)
	}
	emit(&dftracer.Event{Phase: dftracer.PhaseMetadata, Cat: dftracer.CatDFTracer, Name: tracefile.NameCustom, Parent: int64(of), Args: args})
}
