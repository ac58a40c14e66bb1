// Package place writes spans that arrive when they have ended, in any order,
// into the trace file of their process: children before their parents, batches
// that overtake each other, parents that never come.
//
// An [Assembler] keeps spans for as long as its caller likes, puts whole
// subtrees on one lane, gives out the id of a parent that has not come when its
// first child is written, and remembers a bounded number of both. It knows
// nothing of where spans come from.
//
// A [Store] has the files of many processes for a receiver: few are open at a
// time, and what waits and is remembered of all of them has one budget.
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

// Slack is how far, in microseconds, the clocks behind the times of parent and child
// may disagree. What is written later is changed: a parent covers its child, a child
// begins with its parent. Larger differences are taken for explicit times.
const Slack = 10_000

// Options configures an Assembler. The zero value of MaxWaiting and MaxParents
// is 1; a caller has defaults of its own.
type Options struct {
	TID        int64 // of the first lane; the others follow
	MaxWaiting int   // spans that wait at once; above, the oldest is written
	MaxParents int   // open spans, and finished ones, that are remembered
	TraceIDs   bool  // trace_id and span_id for parents that never came
	NoBegin    bool  // no records of open spans, by which Recover closes them
	LiveEvents bool  // AddEvent will be called: remember the events that spans bring
}

// Assembler writes the spans of one process. It is not safe for concurrent use.
type Assembler struct {
	o Options

	// The lines of the file, and how many of each kind were written.
	w       *dftracer.Writer
	first   int64 // the thread of the first lane
	counts  Counts
	crowded bool // a lane is shared

	family  *spanIndex
	lanes   lanes
	waiting waiting
	touched []*relative // open spans that something was written of

	nameless uint64 // spans without an id

	// Memory that is used again.
	args    []dftracer.Arg
	members map[Key]*Span
	heads   []*Span
	one     [1]*Span
}

// New makes an Assembler that writes to w and does not close it.
func New(w *dftracer.Writer, o Options) *Assembler {
	o.MaxWaiting, o.MaxParents = max(o.MaxWaiting, 1), max(o.MaxParents, 1)
	return &Assembler{w: w, first: o.TID, o: o, family: newSpanIndex(o.MaxParents), waiting: newWaiting(), members: make(map[Key]*Span)}
}

// Size is about how many bytes wait and are remembered.
func (a *Assembler) Size() int {
	return a.waiting.bytes + len(a.family.known)*relativeSize + a.family.marks*int(unsafe.Sizeof(mark{}))
}

// admit readies a span and gives it its id. A span that came before is left out, and
// has the id of the first: senders repeat a batch when they did not hear that it was
// taken.
func (a *Assembler) admit(s *Span) bool {
	s.reset()
	if s.Key.IsZero() { // against the specification, but a span all the same
		a.nameless++
		s.Key = Key{}
		binary.BigEndian.PutUint64(s.Key.Span[:], a.nameless)
	}
	if s.Parent == s.Key {
		s.Parent = Key{}
	}
	if w := a.waiting.spans[s.Key]; w != nil {
		s.id = w.id
		a.counts.Duplicates++
		return false
	}
	if r := a.family.find(s.Key); r != nil && r.done {
		s.id = r.id
		a.counts.Duplicates++
		return false
	}
	if s.self = a.family.claim(s.Key); s.self != nil {
		s.id = s.self.id
	} else {
		s.id = a.w.NextID()
	}
	return true
}

// Write writes a span at once, after those that wait.
func (a *Assembler) Write(s *Span) {
	a.WriteAll()
	if a.admit(s) {
		s.taken = true
		a.one[0] = s
		a.writeTree(a.one[:])
	}
}

// Add takes a span that came at now, and writes others if too many wait. It returns
// the id that the span has, or will have, in the file.
func (a *Assembler) Add(s *Span, now time.Time) (id uint64) {
	if !a.admit(s) {
		return s.id
	}
	id = s.id
	a.waiting.add(s, now)
	a.bound()
	return id
}

// Waits reports whether a span waits that came by that time.
func (a *Assembler) Waits(at time.Time) bool {
	for _, q := range a.waiting.queue {
		if !q.span.taken {
			return !q.at.After(at)
		}
	}
	return false
}

// bound writes the oldest while too much waits.
func (a *Assembler) bound() {
	for len(a.waiting.queue) > a.o.MaxWaiting || a.waiting.bytes > maxWaitingBytes {
		a.writeTree(a.waiting.oldest())
	}
}

// WriteUntil writes the spans that came by that time, with all that hangs
// together with them.
func (a *Assembler) WriteUntil(at time.Time) {
	for len(a.waiting.queue) > 0 && (a.waiting.queue[0].span.taken || !a.waiting.queue[0].at.After(at)) {
		a.writeTree(a.waiting.oldest())
	}
}

// WriteAll writes all spans that wait.
func (a *Assembler) WriteAll() {
	for len(a.waiting.queue) > 0 {
		a.writeTree(a.waiting.oldest())
	}
}

// Finish writes everything, what is known of spans that did not end included.
func (a *Assembler) Finish() {
	a.WriteAll()
	a.finish(0)
}

// Shrink writes everything that waits and forgets all but the newest so many
// open and as many finished spans, for a file that is put aside.
func (a *Assembler) Shrink(keep int) {
	a.WriteAll()
	a.finish(keep)
	a.family.keepEnded(keep)
	a.members, a.heads, a.args = make(map[Key]*Span), nil, nil
	a.waiting = newWaiting()
}

// Resume makes the assembler go on with another writer of the same file.
func (a *Assembler) Resume(w *dftracer.Writer) { a.w = w }

// finish writes all but the newest so many open spans as unfinished.
func (a *Assembler) finish(keep int) {
	var open []*relative
	for a.family.open.len > keep {
		open = append(open, a.family.oldestOpen())
	}
	// A parent ends no sooner than its children.
	depth := depths(open)
	slices.SortStableFunc(open, func(x, y *relative) int { return depth[y] - depth[x] })
	for _, r := range open {
		a.unfinished(r)
	}
}

// unfinishedKey is the name of a parent that did not come.
var unfinishedKey = dftracer.NewKey(vocab.TraceName("", "unfinished", "", ""))

// unfinished writes a span that did not end, as far as it is known, around its
// children.
func (a *Assembler) unfinished(r *relative) {
	defer func() { r.parent = nil }() // or each would keep those above it forever
	key := &unfinishedKey
	if r.begun != nil {
		key = r.begun.key
		r.extend(r.begun.start, r.begun.start)
	} else if r.end == 0 {
		a.lanes.leave(r.id) // nothing was ever written below it
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
	a.w.WriteComplete(key, dftracer.Span{ID: r.id, TID: a.tid(lane), TS: r.start, Dur: r.end - r.start, Parent: parent}, args...)
	a.args = args
	a.counts.Unfinished++
}

// expect returns what is known of a span, from now on.
func (a *Assembler) expect(key Key) *relative {
	if r := a.family.find(key); r != nil {
		return r
	}
	if s := a.waiting.spans[key]; s != nil { // it comes later than what is below it
		s.self = &relative{key: key, id: s.id}
		a.family.known[key] = s.self
		return s.self
	}
	r, forgotten := a.family.expect(key, a.w.NextID())
	if forgotten != nil {
		a.unfinished(forgotten)
	}
	return r
}

func (a *Assembler) touch(r *relative) {
	if !r.touched && !a.o.NoBegin {
		r.touched = true
		a.touched = append(a.touched, r)
	}
}

// announce writes begin records of the open spans that something was written
// of, so that Recover can close them should this process be killed.
func (a *Assembler) announce() {
	for i, r := range a.touched {
		a.touched[i] = nil
		waits := r.touched && r.in != nil && r.begun == nil
		r.touched = false
		if !waits || r.announced != 0 && r.announced <= r.start {
			continue
		}
		r.announced = r.start
		tracefile.WriteBegin(a.w, &dftracer.Event{
			ID: r.id, Name: tracefile.KeyName(unfinishedKey), Cat: tracefile.KeyCat(unfinishedKey), TID: a.tid(a.lanes.reservedFor(r.id)), TS: r.start,
			Parent: dftracer.NoParent,
		})
		a.counts.Begins++
	}
	a.touched = a.touched[:0]
}

// Made is the file of a process that is new.
type Made struct {
	Writer *dftracer.Writer
	TID    int64 // of the first lane
	Cut    Cut   // of what is known of the process
}

// maxNumber bounds the numbers that are tried for a name that is taken.
const maxNumber = 1_000_000

// Create makes the file of a process under the first name that is free: before
// the extension goes a number, and the file says that it is a further part,
// since what came before may be in an earlier one.
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
	return nil, fmt.Errorf("%d files like %s are there already", maxNumber, path)
}

// numbered puts a number before the extension.
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

// DefaultLimit is how many attributes, events and links of a span are kept, and
// how many attributes of a process. It is eight times what SDKs keep by default.
const DefaultLimit = 1024

// Argument names for what is missing of a span, those that the OpenTelemetry
// specification gives for formats without such fields.
const (
	ArgDroppedAttributes = "otel.dropped_attributes_count"
	ArgDroppedEvents     = "otel.dropped_events_count"
	ArgDroppedLinks      = "otel.dropped_links_count"
)

// Limits are how many attributes, events and links of a span are kept; 0 is
// DefaultLimit. The first ones are, and what is over is added to the counts of
// what the sender left out. Attributes of an event, a link and a process are
// bounded like those of a span.
type Limits struct{ Attributes, Events, Links int }

// OrDefault fills in what is not set.
func (l Limits) OrDefault() Limits {
	return Limits{cmp.Or(max(l.Attributes, 0), DefaultLimit), cmp.Or(max(l.Events, 0), DefaultLimit), cmp.Or(max(l.Links, 0), DefaultLimit)}
}

// maxFacts bounds the text of what is written about a process, which its Writer
// repeats in each part of a file.
const maxFacts = 64 << 10

// Facts writes what is known of a process as metadata of its file, up to the
// limit of attributes and 64 KiB of text.
type Facts struct {
	Writer *dftracer.Writer
	Limit  int

	n, bytes int
	cut      int64
}

// Room reports whether there is room for one more. One that finds none counts as
// cut.
func (f *Facts) Room() bool {
	if f.n < f.Limit && f.bytes < maxFacts {
		return true
	}
	f.cut++
	return false
}

// Add writes one.
func (f *Facts) Add(key, value string) {
	key, value = key[:min(len(key), maxFact)], value[:min(len(value), maxFact)]
	f.n++
	f.bytes += len(key) + len(value)
	tracefile.WriteCustom(f.Writer, key, value)
}

// maxFact bounds the texts of one fact. The writer cuts on and marks it.
const maxFact = 16 << 10

// End says how many were cut.
func (f *Facts) End() Cut {
	if f.cut > 0 {
		tracefile.WriteCustom(f.Writer, ArgDroppedAttributes, strconv.FormatInt(f.cut, 10))
	}
	return Cut{Attributes: f.cut}
}

// The limits of a Store that are told when they are met.
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

// messages say what a limit does.
var messages = [limits]string{
	limitAttributes: "spans, events or resources have more attributes than are kept: what is over is counted in " + ArgDroppedAttributes,
	limitEvents:     "spans have more events than are kept: what is over is counted in " + ArgDroppedEvents,
	limitLinks:      "spans have more links than are kept: what is over is counted in " + ArgDroppedLinks,
	limitLanes:      "more spans run at a time than there are lanes: what finds no room is on lane 0, where spans need not nest",
	limitFiles:      "processes that belong together have had more files than may be made for them: new ones share a file",
	limitProcesses:  "more processes send spans than are known at once: new ones share a file",
	limitBytes:      "more spans wait to be written than memory is allowed for: senders are asked to send again later",
	limitOpen:       "more processes send spans than trace files may be open: files are closed and opened again in turns",
}

// crowdedEvery is the least time between two warnings of too many open files.
const crowdedEvery = time.Minute

// warnedOnce says of each limit once that it was met. The time matters only of limitOpen,
// which is told again.
type warnedOnce struct {
	log func(slog.Level, string, ...any)
	see string

	mu sync.Mutex
	at [limits]time.Time
}

// warnOnce tells of a limit, unless that was done.
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

// counted tells of the limits that spans met.
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
