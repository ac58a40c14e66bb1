package dataset

import (
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/internal/run"
)

// Arguments with a column of their own.
const (
	argEpoch = "epoch"
	argStep  = "step"
	argGroup = "pg"
	argFile  = "fhash"
)

const (
	usPerHour = 3600 * 1_000_000 // a folder
	heldRows  = 128              // of a process, before the others are asked to wait
)

// Process takes the events of one process. It is not safe for concurrent use;
// several of one Builder are.
type Process struct {
	*run.Process
	to     *Builder
	places map[int64]uint32 // by hour
	hour   int64
	place  uint32
	lanes  lanes
	names  cache[spanName]
	groups cache[string]
	files  cache[string]
	rows   []row
}

// Add takes an event, or the name of a file behind a hash. It keeps nothing of it
// but strings. An error means that the temporary file cannot be written.
func (p *Process) Add(ev *dftracer.Event) error {
	if ev.Phase == dftracer.PhaseMetadata {
		if ev.Name == dft.NameFileHash {
			name, hash := ev.Meta()
			p.to.mu.Lock()
			defer p.to.mu.Unlock()
			p.to.hashes[hash] = name
		}
		return nil
	}
	if ev.Cat == dftracer.CatDFTracer {
		return nil // the framing
	}
	if len(p.rows) == heldRows {
		if err := p.flush(); err != nil {
			return err
		}
	}
	if len(p.rows) < cap(p.rows) {
		p.rows = p.rows[:len(p.rows)+1]
	} else {
		p.rows = append(p.rows, row{})
	}
	r := &p.rows[len(p.rows)-1]
	*r = row{
		place: p.placeOf(ev.TS), ts: ev.TS, dur: ev.Dur, tid: ev.TID, id: ev.ID, parent: max(ev.Parent, 0), level: int64(max(ev.Level, 0)),
		name: p.names.of(p.to, &p.to.names, spanName{ev.Cat, ev.Name, ev.Phase}), args: r.args[:0],
	}
	for i := range ev.Args {
		p.argument(r, &ev.Args[i])
	}
	if len(r.args) > 0 {
		r.args = append(r.args, '}')
	}
	return nil
}

// flush hands on the rows.
func (p *Process) flush() error {
	err := p.to.add(p.rows)
	p.rows = p.rows[:0]
	return err
}

// placeOf returns the number of the process and the hour.
func (p *Process) placeOf(ts int64) uint32 {
	hour := max(ts, 0) / usPerHour
	if p.hour == hour {
		return p.place
	}
	at, ok := p.places[hour]
	if !ok {
		at = p.to.newPlace()
		p.places[hour] = at
	}
	p.hour, p.place = hour, at
	return at
}

// argument puts an argument into its column, or into the JSON of the others.
func (p *Process) argument(r *row, arg *dftracer.Arg) {
	if arg.Key == argStep || arg.Key == argEpoch {
		if n, ok := dft.Whole(*arg); ok && arg.Key == argStep {
			r.step = number{n, true}
			return
		} else if ok {
			r.epoch = number{n, true}
			return
		}
	}
	switch {
	case dft.KindOf(*arg) == dft.KindString && arg.Key == argGroup:
		r.group = p.groups.of(p.to, &p.to.groups, arg.Text())
		return
	case arg.Key == argFile:
		r.file = p.files.of(p.to, &p.to.files, arg.Text())
		return
	}
	sep := byte(',')
	if len(r.args) == 0 {
		sep = '{'
	}
	key := dftracer.String("", arg.Key)
	r.args = append(dft.AppendArg(key, append(r.args, sep), dftracer.V2), ':')
	r.args = dft.AppendArg(*arg, r.args, dftracer.V2)
}

// cache is what one process has asked a table for.
type cache[K comparable] struct {
	ids  map[K]uint64
	last K
	id   uint64
}

func (c *cache[K]) of(b *Builder, t *table[K], k K) uint64 {
	if c.id != 0 && k == c.last {
		return c.id
	}
	id, ok := c.ids[k]
	if !ok {
		b.mu.Lock()
		id = t.of(k)
		b.mu.Unlock()
		if c.ids == nil {
			c.ids = make(map[K]uint64)
		}
		c.ids[k] = id
	}
	c.last, c.id = k, id
	return id
}
