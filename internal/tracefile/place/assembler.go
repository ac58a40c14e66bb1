// Package place writes ended spans, which may arrive in any order, into the trace file
// of their process. Children may arrive before their parents, batches may overtake each
// other, and parents may never arrive.
//
// An [Assembler] holds spans for as long as its caller likes and puts each subtree on
// one lane. If a child is written before its parent arrives, the assembler assigns the
// parent's id then. It remembers a bounded number of waiting spans and of parents. It
// does not know where spans come from.
//
// A [Store] manages the files of many processes for a receiver. It keeps few files open
// at a time, and one memory budget covers everything that waits or is remembered.
package place

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
)

// Slack is the largest difference, in microseconds, between the clocks of a parent and
// its child. Within it the span that is written later is adjusted: a parent is extended
// to cover its child, and a child starts with its parent. A larger difference is treated
// as intended, for example an explicit time.
const Slack = 10_000

// Options configures an Assembler. A MaxWaiting or MaxParents below 1 counts as 1;
// callers apply their own defaults.
type Options struct {
	TID        int64 // thread id of the first lane; the others are tracefile.LaneDistance apart
	MaxWaiting int   // spans that wait at once; beyond it, the oldest is written
	MaxParents int   // open spans, and as many finished ones, that are remembered
	TraceIDs   bool  // write trace_id and span_id for parents that never arrive
	LiveEvents bool  // AddEvent will be called: remember the events that arrive with spans
}

// Assembler writes the spans of one process. It is not safe for concurrent use.
type Assembler struct {
	o Options

	// The writer of the file, and the counts of what was written.
	w       *dftracer.Writer
	first   int64 // the thread id of the first lane
	counts  Counts
	crowded bool // lane 0 is shared, and the file has the metadata for it

	family  *spanIndex
	lanes   lanes
	waiting waiting

	nameless uint64 // number of spans that arrived without an id

	// Reused buffers.
	args   []dftracer.Arg
	heads  []*Span
	events []dftracer.Event
	one    [1]*Span
}

// New returns an Assembler that writes to w. It does not close w.
func New(w *dftracer.Writer, o Options) *Assembler {
	o.MaxWaiting, o.MaxParents = max(o.MaxWaiting, 1), max(o.MaxParents, 1)
	return &Assembler{w: w, first: o.TID, o: o, family: newSpanIndex(o.MaxParents)}
}

// Size returns the approximate memory, in bytes, of waiting and remembered spans.
func (a *Assembler) Size() int {
	return a.waiting.bytes + (a.family.open.len+a.family.ended.len)*relativeSize + a.family.marks*int(unsafe.Sizeof(mark{}))
}

// admit prepares a span and returns its id. first is false for a duplicate, which gets the
// id of the first copy: senders repeat a batch if they get no acknowledgement.
func (a *Assembler) admit(s *Span) (id uint64, first bool) {
	s.reset()
	if s.Key.IsZero() { // not allowed by the specification, but accepted
		a.nameless++
		s.Key = Key{}
		binary.BigEndian.PutUint64(s.Key.Span[:], a.nameless)
	}
	if s.Parent == s.Key {
		s.Parent = Key{}
	}
	r := a.family.entry(s.Key)
	if r.span != nil || r.done {
		r.use()
		a.counts.Duplicates++
		return r.id, false
	}
	r.take() // it is not forgotten before it is written
	if !r.expected {
		r.id = a.w.NextID()
	}
	s.self, r.span = r, s
	if !s.Parent.IsZero() {
		s.over = a.family.entry(s.Parent)
	}
	return r.id, true
}

// Write writes the waiting spans, then s.
func (a *Assembler) Write(s *Span) {
	a.WriteAll()
	if _, ok := a.admit(s); ok {
		s.taken = true
		a.one[0] = s
		a.writeTree(a.one[:])
	}
}

// Add queues a span that arrived at now. If too many spans wait, it writes the oldest.
// It returns the id that the span has, or will have, in the file.
func (a *Assembler) Add(s *Span, now time.Time) (id uint64) {
	id, ok := a.admit(s)
	if !ok {
		s.end()
		return id
	}
	a.waiting.add(s, now)
	a.bound()
	return id
}

// Waits reports whether a span that arrived at or before the given time still waits.
func (a *Assembler) Waits(at time.Time) bool {
	return a.waiting.oldest != nil && !a.waiting.oldest.at.After(at)
}

// bound writes the oldest spans until the number and the memory of waiting spans are
// within their limits.
func (a *Assembler) bound() {
	for a.waiting.n > a.o.MaxWaiting || a.waiting.bytes > maxWaitingBytes {
		a.writeTree(a.waiting.gather())
	}
}

// WriteUntil writes the spans that arrived at or before the given time, and all waiting
// spans of their trees.
func (a *Assembler) WriteUntil(at time.Time) {
	for a.Waits(at) {
		a.writeTree(a.waiting.gather())
	}
}

// WriteAll writes all waiting spans.
func (a *Assembler) WriteAll() {
	for a.waiting.n > 0 {
		a.writeTree(a.waiting.gather())
	}
}

// Finish writes all waiting spans, and then, as unfinished, the spans that did not end.
func (a *Assembler) Finish() {
	a.WriteAll()
	a.finish(0)
}

// Shrink writes all waiting spans, then forgets all but the newest keep open and keep
// finished spans. It is for a file that is suspended.
func (a *Assembler) Shrink(keep int) {
	a.WriteAll()
	a.finish(keep)
	a.family.keepEnded(keep)
	a.heads, a.args, a.events, a.waiting.all = nil, nil, nil, nil
}

// Resume continues with another writer of the same file.
func (a *Assembler) Resume(w *dftracer.Writer) { a.w = w }

// finish writes all but the newest keep open spans as unfinished.
func (a *Assembler) finish(keep int) {
	var open []*relative
	for a.family.open.len > keep {
		open = append(open, a.family.oldestOpen())
	}
	// Deepest first, so that a parent is extended over its children before it is
	// written.
	depth := depths(open)
	slices.SortStableFunc(open, func(x, y *relative) int { return depth[y] - depth[x] })
	for _, r := range open {
		a.unfinished(r)
	}
}

// unfinishedKey is the category and name of a parent that did not arrive.
var unfinishedKey = dftracer.NewKey(vocab.TraceName("", "unfinished", "", ""))

// unfinished writes a span that did not end. It covers its known children and events.
func (a *Assembler) unfinished(r *relative) {
	defer func() { r.parent = nil }() // otherwise each entry keeps its ancestors in memory
	key := &unfinishedKey
	if r.begun != nil {
		key = r.begun.key
		r.extend(r.begun.start, r.begun.start)
	} else if !r.spanned {
		a.lanes.leave(r.id) // it has no children and no events
		return
	}
	parent := dftracer.NoParent
	in, near, open := interval{start: r.start, end: r.end, id: r.id}, -1, false
	if p := r.parent; p != nil {
		if open = !p.done; open {
			p.extend(r.start, r.end)
		}
		if open || p.contains(r.start, r.end) {
			parent, in.parent, near = int64(p.id), p.id, p.lane
		}
	}
	args := append(a.args[:0], dftracer.Int(ArgTruncated, 1))
	if a.o.TraceIDs {
		args = append(args, dftracer.String(ArgTraceID, hex.EncodeToString(r.key.Trace[:])),
			dftracer.String(ArgSpanID, hex.EncodeToString(r.key.Span[:])))
	}
	lane, _ := a.lanes.place(in, near, open)
	a.w.WriteComplete(key, dftracer.Span{ID: r.id, TID: a.spanTID(lane), TS: r.start, Dur: r.end - r.start, Parent: parent}, args...)
	a.args = args
	a.counts.Unfinished++
}

// expect returns the entry of a span of which a child or an event is written, for r, an
// entry of it.
func (a *Assembler) expect(r *relative) *relative {
	if r.forgotten {
		r = a.family.entry(r.key)
	}
	switch {
	case r.in != nil:
		r.use()
	case r.span != nil: // it arrived, but is written after its child
		r.expected = true
	default:
		if forgotten := a.family.expect(r, a.w.NextID()); forgotten != nil {
			a.unfinished(forgotten)
		}
	}
	return r
}

// Made is the new file of a process.
type Made struct {
	Writer *dftracer.Writer
	TID    int64 // thread id of the first lane
	Cut    Cut   // what the process metadata lacks
}

// maxNumber bounds the numbers that Create tries if a name is taken.
const maxNumber = 1_000_000

// Create creates the file of a process under the first free name. If path is taken, it
// inserts a number before the extension and marks the file as a further part, because an
// earlier file may hold the earlier spans.
func Create(path string, o *dftracer.Options) (*dftracer.Writer, error) {
	o.Existing = dftracer.ExistingFail
	for n := range maxNumber {
		w, err := dftracer.Create(numbered(path, n), o)
		if err == nil && n > 0 {
			tracefile.WriteCustom(w, tracefile.KeyPart, strconv.Itoa(n))
		}
		if err == nil || !errors.Is(err, os.ErrExist) {
			return w, err
		}
	}
	return nil, fmt.Errorf("%d files with names like %s exist already", maxNumber, path)
}

// numbered returns path with n inserted before the extension. It returns path itself if
// n is 0.
func numbered(path string, n int) string {
	if n == 0 {
		return path
	}
	for _, ext := range [...]string{".pfw.gz", ".pfw"} {
		if stem, ok := strings.CutSuffix(path, ext); ok {
			return stem + "." + strconv.Itoa(n) + ext
		}
	}
	return path + "." + strconv.Itoa(n)
}

// DefaultLimit is the default of each field of [Limits], and the default limit of the
// attributes of a process. It is eight times the default of OpenTelemetry SDKs.
const DefaultLimit = 1024

// Argument names for dropped attributes, events and links. The OpenTelemetry
// specification defines them for formats without such fields.
const (
	ArgDroppedAttributes = "otel.dropped_attributes_count"
	ArgDroppedEvents     = "otel.dropped_events_count"
	ArgDroppedLinks      = "otel.dropped_links_count"
)

// Limits bounds the attributes, events and links of a span; 0 means DefaultLimit. The
// first ones are kept, and the excess is added to the sender's counts of dropped ones.
// Attributes of events, links and processes have the same limit as those of spans.
type Limits struct{ Attributes, Events, Links int }

// OrDefault returns l with DefaultLimit for each field that is not positive.
func (l Limits) OrDefault() Limits {
	return Limits{cmp.Or(max(l.Attributes, 0), DefaultLimit), cmp.Or(max(l.Events, 0), DefaultLimit), cmp.Or(max(l.Links, 0), DefaultLimit)}
}

// maxFacts is the size of the metadata text of a process after which no more is written:
// its Writer repeats it in each part of a file.
const maxFacts = 64 << 10

// Facts writes the attributes of a process as metadata of its file. It writes at most
// Limit attributes, and none after 64 KiB of text.
type Facts struct {
	Writer *dftracer.Writer
	Limit  int

	n, bytes int
	cut      int64
}

// Room reports whether one more attribute may be added. If not, it counts that attribute
// as cut.
func (f *Facts) Room() bool {
	if f.n < f.Limit && f.bytes < maxFacts {
		return true
	}
	f.cut++
	return false
}

// Add writes one attribute. It truncates long keys and values.
func (f *Facts) Add(key, value string) {
	key, value = key[:min(len(key), maxFact)], value[:min(len(value), maxFact)]
	f.n++
	f.bytes += len(key) + len(value)
	tracefile.WriteCustom(f.Writer, key, value)
}

// maxFact bounds the key and the value of one attribute, in bytes. The writer truncates
// further, and marks that.
const maxFact = 16 << 10

// End writes the number of cut attributes, if any, and returns it.
func (f *Facts) End() Cut {
	if f.cut > 0 {
		tracefile.WriteCustom(f.Writer, ArgDroppedAttributes, strconv.FormatInt(f.cut, 10))
	}
	return Cut{Attributes: f.cut}
}

// The limits of a Store for which it logs a warning.
const (
	limitAttributes = iota
	limitEvents
	limitLinks
	limitLanes
	limitFiles
	limitProcesses
	limitBytes
	limitOpen
	limits
)

// messages are the warnings for each limit.
var messages = [limits]string{
	limitAttributes: "spans, events or resources exceed the attribute limit: excess attributes are dropped and counted in " + ArgDroppedAttributes,
	limitEvents:     "spans exceed the event limit: excess events are dropped and counted in " + ArgDroppedEvents,
	limitLinks:      "spans exceed the link limit: excess links are dropped and counted in " + ArgDroppedLinks,
	limitLanes:      "more concurrent spans than lanes: the excess spans share lane 0, where spans may overlap",
	limitFiles:      "a group of processes has reached its limit of trace files: new processes share one file",
	limitProcesses:  "the limit of known processes is reached: new processes share one file",
	limitBytes:      "waiting spans have reached the memory limit: senders are asked to retry later",
	limitOpen:       "more processes send spans than files may be open: files are closed and reopened in turn",
}

// crowdedEvery is the minimum time between two warnings about too many open files.
const crowdedEvery = time.Minute

// warnedOnce logs one warning for each limit that is reached. It repeats only the
// warning for limitOpen, at most once per crowdedEvery. It is safe for concurrent use.
type warnedOnce struct {
	log func(slog.Level, string, ...any)
	see string

	mu sync.Mutex
	at [limits]time.Time
}

// warnOnce logs the warning for a limit, unless it is already logged.
func (t *warnedOnce) warnOnce(which, limit int, more ...any) {
	t.mu.Lock()
	last, now := t.at[which], time.Now()
	silent := !last.IsZero() && (which != limitOpen || now.Sub(last) < crowdedEvery)
	if !silent {
		t.at[which] = now
	}
	t.mu.Unlock()
	if !silent {
		t.log(slog.LevelWarn, messages[which], append([]any{"limit", limit, "see", t.see}, more...)...)
	}
}

// counted logs a warning for each limit that the counted spans reached.
func (t *warnedOnce) counted(c *Counts, l Limits) {
	if c.Cut.Attributes > 0 {
		t.warnOnce(limitAttributes, l.Attributes)
	}
	if c.Cut.Events > 0 {
		t.warnOnce(limitEvents, l.Events)
	}
	if c.Cut.Links > 0 {
		t.warnOnce(limitLinks, l.Links)
	}
	if c.SharedLane > 0 {
		t.warnOnce(limitLanes, MaxLanes)
	}
}
