package dftracerexporter

import (
	"encoding/binary"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/trainspan/trainspan/dftracer"
)

// maxWaitingBytes bounds the memory of the spans of a process that wait.
const maxWaitingBytes = 16 << 20

// unfinishedKey is the name of a parent that did not come.
var unfinishedKey = dftracer.NewKey(noScope, "unfinished")

// trace is the file of one process.
type trace struct {
	cfg  *Config
	w    *dftracer.Writer
	pid  int64
	rec  *recorder
	used time.Time // under the lock of the store

	mu      sync.Mutex
	closed  bool
	keys    keys
	family  *family
	lanes   lanes
	waiting map[spanKey]*span
	below   map[spanKey]*span // the first of the waiting children of a span
	queue   []queued          // of waiting spans, by arrival
	bytes   int
	touched []*relative // open spans that something was written of

	nameless uint64 // spans without an id
}

type queued struct {
	span *span
	at   time.Time
}

func newTrace(cfg *Config, w *dftracer.Writer, pid int, rec *recorder) *trace {
	return &trace{
		cfg: cfg, w: w, pid: int64(pid), rec: rec,
		keys: make(keys), family: newFamily(cfg.MaxParents),
		waiting: make(map[spanKey]*span), below: make(map[spanKey]*span),
	}
}

// add takes a span. A span that was delivered before is left out: senders
// repeat a batch when they did not hear that it was taken.
func (t *trace) add(s *span, now time.Time) {
	if s.key.span.IsEmpty() { // against the specification, but a span all the same
		t.nameless++
		s.key = spanKey{}
		binary.BigEndian.PutUint64(s.key.span[:], t.nameless)
	}
	if t.waiting[s.key] != nil {
		t.rec.duplicates++
		return
	}
	if r := t.family.find(s.key); r != nil && r.done {
		t.rec.duplicates++
		return
	}
	t.waiting[s.key] = s
	if !s.parent.span.IsEmpty() {
		if s.next = t.below[s.parent]; s.next != nil {
			s.next.prev = s
		}
		t.below[s.parent] = s
	}
	t.queue = append(t.queue, queued{s, now})
	t.bytes += s.size
	for len(t.queue) > t.cfg.MaxWaitingSpans || t.bytes > maxWaitingBytes {
		t.writeOldest()
	}
}

// writeUntil writes the spans that came by that time, with all that hangs
// together with them.
func (t *trace) writeUntil(at time.Time) {
	for len(t.queue) > 0 && (t.queue[0].span.taken || !t.queue[0].at.After(at)) {
		t.writeOldest()
	}
}

// writeOldest writes the span that waits longest, its relatives among the
// waiting spans included.
func (t *trace) writeOldest() {
	s := t.queue[0].span
	t.queue[0] = queued{}
	t.queue = t.queue[1:]
	if !s.taken {
		t.writeFamily(t.gather(s))
	}
	if len(t.queue) == 0 {
		t.queue = nil
	}
}

// writeAll writes everything, what is known of spans that did not end included.
func (t *trace) writeAll() {
	for len(t.queue) > 0 {
		t.writeOldest()
	}
	var open []*relative
	for e := t.family.waiting.Back(); e != nil; e = e.Prev() {
		open = append(open, e.Value.(*relative))
	}
	// A parent ends no sooner than its children.
	slices.SortStableFunc(open, func(a, b *relative) int { return b.depth() - a.depth() })
	for _, r := range open {
		t.family.forget(r)
		t.unfinished(r)
	}
}

// unfinished writes a span that did not end, as far as it is known, around its
// children.
func (t *trace) unfinished(r *relative) {
	key := &unfinishedKey
	if r.begun != nil {
		key = r.begun.key
		r.extend(r.begun.start, r.begun.start)
	} else if r.end == 0 {
		t.lanes.leave(r.id) // nothing was ever written below it
		return
	}
	parent := dftracer.NoParent
	var above uint64
	if p := r.parent; p != nil {
		parent = int64(p.id)
		if !p.done {
			above = p.id
			p.extend(r.start, r.end)
		} else if !p.contains(r.start, r.end) {
			parent = dftracer.NoParent
		}
	}
	args := []dftracer.Arg{dftracer.Int(argTruncated, 1)}
	if t.cfg.TraceIDs {
		args = append(args, dftracer.String(argTraceID, r.key.trace.String()), dftracer.String(argSpanID, r.key.span.String()))
	}
	lane, _ := t.lanes.place(r.id, above, r.start, r.end)
	t.w.WriteComplete(key, dftracer.Span{ID: r.id, TID: t.tid(lane), TS: r.start, Dur: r.end - r.start, Parent: parent}, args...)
	t.rec.unfinished++
}

func (t *trace) touch(r *relative) {
	if !r.touched {
		r.touched = true
		t.touched = append(t.touched, r)
	}
}

// announce writes begin records of the open spans that something was written
// of, so that Recover can close them should the Collector be killed.
func (t *trace) announce() {
	for _, r := range t.touched {
		waits := r.touched && r.element != nil && r.begun == nil
		r.touched = false
		if !waits || r.announced != 0 && r.announced <= r.start {
			continue
		}
		r.announced = r.start
		t.w.Begin(&dftracer.Event{
			ID: r.id, Name: unfinishedKey.Name(), Cat: unfinishedKey.Cat(), TID: t.tid(t.lanes.homeOf(r.id)), TS: r.start,
			Parent: dftracer.NoParent,
		})
		t.rec.begins++
	}
	t.touched = t.touched[:0]
}

func (t *trace) tid(lane int) int64 { return t.pid + int64(max(lane, 0)) }

// expect gives what is known of a span that is not done, from now on.
func (t *trace) expect(key spanKey) *relative {
	if r := t.family.find(key); r != nil {
		return r
	}
	r, forgotten := t.family.expect(key, t.w.NextID())
	if forgotten != nil {
		t.unfinished(forgotten)
	}
	return r
}

// writeEvent writes an event of a span as a metadata record.
func (t *trace) writeEvent(e *event, id uint64, tid int64) {
	e.args[2] = dftracer.Int(argSpan, int64(id))
	t.w.Write(&dftracer.Event{
		Phase: dftracer.PhaseMetadata, Name: dftracer.NameCustom, Cat: dftracer.CatDFTracer,
		TID: tid, Parent: int64(id), Args: e.args,
	})
	t.rec.events++
}

// close completes the file. The trace takes nothing any more.
func (t *trace) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	t.writeAll()
	st := t.w.Stats()
	if st.Lost > 0 {
		t.w.SetEndArgs(dftracer.String("lost", strconv.FormatUint(st.Lost, 10)))
	}
	err := t.w.Close()
	t.rec.lost = t.w.Stats().Lost
	t.rec.flush()
	return err
}
