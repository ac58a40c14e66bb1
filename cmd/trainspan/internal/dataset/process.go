package dataset

import (
	"fmt"
	"slices"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/stats"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/nest"
)

// Arguments with their own column.
const (
	argEpoch = "epoch"
	argStep  = "step"
	argGroup = "pg"
	argFile  = "fhash"
)

// heldRows is the number of rows of a block, except for the last of a process.
const heldRows = 128

// Process adds the events of one process. It is not safe for concurrent use;
// several of one Builder may be used concurrently.
type Process struct {
	*job.Process
	to     *Builder
	hours  map[int64]*hour
	lanes  lanes
	names  cache[spanName]
	groups cache[string]
	files  cache[string]
	rows   []row // not in a block

	order  []rowOrder // for sorting
	runs   stats.Runs[rowOrder]
	packed []byte // of a block
}

// Add adds an event, or the name of a file for a hash. It keeps no reference to
// ev except for its strings. An error means that the temporary file cannot be
// written.
func (p *Process) Add(ev *dftracer.Event) error {
	if ev.Phase == dftracer.PhaseMetadata {
		if ev.Name == tracefile.NameFileHash {
			name, hash := ev.Meta()
			p.to.mu.Lock()
			defer p.to.mu.Unlock()
			p.to.hashes[hash] = name
		}
		return nil
	}
	if ev.Cat == dftracer.CatDFTracer {
		return nil // framing
	}
	if len(p.rows) == heldRows {
		p.pack()
		if err := p.to.rows.Err(); err != nil {
			return fmt.Errorf("dataset: %w", err)
		}
	}
	if len(p.rows) < cap(p.rows) {
		p.rows = p.rows[:len(p.rows)+1]
	} else {
		p.rows = append(p.rows, row{})
	}
	r := &p.rows[len(p.rows)-1]
	*r = row{
		ts: ev.TS, dur: ev.Dur, tid: ev.TID, id: ev.ID, parent: max(ev.Parent, 0), level: int64(max(ev.Level, 0)),
		name: p.names.idOf(p.to, &p.to.names, spanName{ev.Cat, ev.Name, ev.Phase}, ends(ev.Name)+len(ev.Cat)), args: r.args[:0],
	}
	for i := range ev.Args {
		p.argument(r, &ev.Args[i])
	}
	if len(r.args) > 0 {
		r.args = append(r.args, '}')
	}
	return nil
}

// argument puts an argument into its column, or into the JSON of the others.
func (p *Process) argument(r *row, arg *dftracer.Arg) {
	if arg.Key == argStep || arg.Key == argEpoch {
		if n, ok := tracefile.Whole(*arg); ok && arg.Key == argStep {
			r.step = number{n, true}
			return
		} else if ok {
			r.epoch = number{n, true}
			return
		}
	}
	switch {
	case tracefile.KindOf(*arg) == tracefile.KindString && arg.Key == argGroup:
		text := arg.Text()
		r.group = p.groups.idOf(p.to, &p.to.groups, text, ends(text))
		return
	case arg.Key == argFile:
		text := arg.Text()
		r.file = p.files.idOf(p.to, &p.to.files, text, ends(text))
		return
	}
	sep := byte(',')
	if len(r.args) == 0 {
		sep = '{'
	}
	key := dftracer.String("", arg.Key)
	r.args = append(tracefile.AppendArg(key, append(r.args, sep), dftracer.V2), ':')
	r.args = tracefile.AppendArg(*arg, r.args, dftracer.V2)
}

// cache holds one process's lookups in a table.
type cache[K comparable] struct {
	ids    map[K]uint32
	recent [32]struct { // by a few bytes of the value, because a map is slow for every event
		value K
		id    uint32
	}
}

// idOf returns the number of a value. at is the same for equal values.
func (c *cache[K]) idOf(b *Builder, t *table[K], k K, at int) uint32 {
	last := &c.recent[uint(at)%uint(len(c.recent))]
	if last.id != 0 && k == last.value {
		return last.id
	}
	id, ok := c.ids[k]
	if !ok {
		b.mu.Lock()
		id = t.idOf(k)
		b.mu.Unlock()
		if c.ids == nil {
			c.ids = make(map[K]uint32)
		}
		c.ids[k] = id
	}
	last.value, last.id = k, id
	return id
}

// ends returns a number that differs between many texts.
func ends(text string) int {
	if text == "" {
		return 0
	}
	return len(text) + int(text[0]) + 5*int(text[len(text)-1])
}

// lanes holds the open spans of one process, lane by lane.
type lanes struct {
	open  map[int64]*nest.Stack[uint32]
	last  *nest.Stack[uint32]
	tid   int64
	taken []taken
}

// taken is the part of a span's time that belongs to another span.
type taken struct {
	name uint32
	us   int64
}

// begin opens the span of a row. Rows must be in the order of their lane. It
// returns the name of the innermost open span that contains the whole row, or
// 0, and the spans that the row outlasts. The slice is valid until the next
// call.
func (l *lanes) begin(r *row) (outer uint32, outlasted []taken) {
	if l.last == nil || l.tid != r.tid {
		if l.open == nil {
			l.open = make(map[int64]*nest.Stack[uint32])
		}
		if l.last, l.tid = l.open[r.tid], r.tid; l.last == nil {
			l.last = new(nest.Stack[uint32])
			l.open[r.tid] = l.last
		}
	}
	at, end := r.ts, r.ts+max(r.dur, 0)
	l.taken = l.taken[:0]
	for _, o := range slices.Backward(l.last.Leave(at, end)) {
		if o.End > at {
			l.taken = append(l.taken, taken{o.Of, o.End - at})
			at = o.End
		}
	}
	if top := l.last.Top(); top != nil {
		if outer = top.Of; top.End == end { // the row contains the rest of it
			l.last.Pop()
		}
	}
	l.last.Push(end, r.name)
	return outer, l.taken
}
