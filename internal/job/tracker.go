package job

import (
	"cmp"
	"math"
	"slices"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/identity"
)

// Tracker tells whose the events of trace files are, for those who read files event
// by event. What the beginning of a file says of its writer is known at once, what
// comes later from there on. It is not safe for concurrent use.
type Tracker struct {
	groups map[string]*group // of trace files
	files  map[string]*FileTracker
	latest map[Key]*Process
}

// NewTracker looks at the beginnings of files. Those that are no traces, as JSON
// lines, say nothing there.
func NewTracker(paths ...string) *Tracker {
	t := &Tracker{groups: make(map[string]*group), files: make(map[string]*FileTracker), latest: make(map[Key]*Process)}
	s := &Set{}
	s.sniff(slices.Sorted(slices.Values(paths)))
	s.join()
	for _, g := range s.traces {
		if g.otlp {
			continue // its records say it
		}
		for _, path := range g.paths {
			t.groups[path] = g
			for _, same := range g.same[path] {
				t.groups[same] = g
			}
		}
	}
	return t
}

// Processes returns those of all files that were read, in no order.
func (t *Tracker) Processes() (all []*Process) {
	for _, f := range t.files {
		for _, p := range f.procs {
			all = append(all, p)
		}
	}
	return all
}

// ByStart puts files in the order in which their processes began, so that it makes
// no difference in which they were given.
func (t *Tracker) ByStart(paths []string) []string {
	start := func(path string) int64 {
		if g := t.groups[path]; g != nil {
			return g.start
		}
		return Unknown
	}
	return slices.SortedFunc(slices.Values(paths), func(a, b string) int {
		return cmp.Or(cmp.Compare(start(a), start(b)), cmp.Compare(a, b))
	})
}

// FileTracker is a [Tracker] of one file.
type FileTracker struct {
	in      *Tracker
	group   *group
	procs   map[Key]*Process
	latest  int64 // that nanoseconds can say, in units of time
	learns  bool  // the host, where the beginning was not looked at
	lastKey Key
	last    *Process
}

// File returns the tracker of a file, the same each time.
func (t *Tracker) File(path string) *FileTracker {
	f := t.files[path]
	if f == nil {
		f = &FileTracker{in: t, group: t.groups[path], procs: make(map[Key]*Process)}
		if f.learns = f.group == nil; f.learns {
			f.group = &group{who: newProcess(), start: Unknown, scale: 1000}
		}
		f.latest = math.MaxInt64 / f.group.scale
		t.files[path] = f
	}
	return f
}

// Host returns the hash of the host of the file, which is that of lines without one.
func (f *FileTracker) Host() string { return f.group.host }

// Key returns the process of an event as the file says it.
func (f *FileTracker) Key(ev *dftracer.Event) Key { return f.group.key(ev) }

// Owner returns the process that wrote the file.
func (f *FileTracker) Owner() *Process { return f.Process(f.group.owner) }

// Process returns what is known of a process. A file that begins when the process of its
// number has given its last sign of life is of another one: numbers come again, in
// containers with every start.
func (f *FileTracker) Process(key Key) *Process {
	p := f.procs[key]
	if p != nil {
		return p
	}
	if p = f.in.latest[key]; p == nil || f.group.start != Unknown && p.LastSeen != Unknown && p.LastSeen <= f.group.start {
		p = newProcess()
		p.PID, p.Host = key.PID, key.Host
		f.in.latest[key] = p
	}
	f.procs[key] = p
	if key == f.group.owner {
		p.who.Add(f.group.who.who)
		p.applyEvidence()
	}
	return p
}

// Of returns the process of an event, after it has taken what the event says of it.
func (f *FileTracker) Of(ev *dftracer.Event) *Process {
	if f.learns && f.group.host == "" {
		f.group.host = ev.HostHash
	}
	key := f.Key(ev)
	p := f.last
	if p == nil || key != f.lastKey {
		p = f.Process(key)
		f.lastKey, f.last = key, p
	}
	switch {
	case ev.Phase == dftracer.PhaseMetadata || ev.Cat == dftracer.CatDFTracer:
		p.hear(ev)
	case ev.TS >= 0 && ev.Dur >= 0 && ev.TS <= f.latest-ev.Dur:
		p.LastSeen = max(p.LastSeen, (ev.TS+ev.Dur)*f.group.scale)
	}
	return p
}

// Named reports whether nothing but the name of a file says the rank.
func (p *Process) Named() bool {
	from, known := p.who.From(identity.Rank)
	return known && from == identity.Name
}
