package job

import (
	"cmp"
	"slices"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/identity"
)

// Tracker determines the processes of trace events, for readers that go event
// by event. The records at the beginning of a file are known at once, later
// records from there on. It is not safe for concurrent use.
type Tracker struct {
	groups map[string]*group // of trace files
	files  map[string]*FileTracker
	latest map[Key]*Process
}

// NewTracker reads the beginnings of files. Files that are not traces, such as
// JSON lines, are ignored.
func NewTracker(paths ...string) *Tracker {
	t := &Tracker{groups: make(map[string]*group), files: make(map[string]*FileTracker), latest: make(map[Key]*Process)}
	s := &Set{}
	s.sniff(slices.Sorted(slices.Values(paths)))
	s.join()
	for _, g := range s.traces {
		if g.otlp {
			continue // its records have it
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

// Processes returns the processes of all files that were read, in no order.
func (t *Tracker) Processes() (all []*Process) {
	for _, f := range t.files {
		for _, p := range f.procs {
			all = append(all, p)
		}
	}
	return all
}

// ByStart sorts files by the start of their processes, so that the order of
// arguments does not matter.
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
	learns  bool // the host, if the beginning was not read
	lastKey Key
	last    *Process
}

// File returns the tracker of a file, the same each time.
func (t *Tracker) File(path string) *FileTracker {
	f := t.files[path]
	if f == nil {
		f = &FileTracker{in: t, group: t.groups[path], procs: make(map[Key]*Process)}
		if f.learns = f.group == nil; f.learns {
			f.group = &group{who: newProcess(), start: Unknown}
		}
		t.files[path] = f
	}
	return f
}

// Host returns the hash of the file's host, which is that of lines without one.
func (f *FileTracker) Host() string { return f.group.host }

// Key returns the process of an event according to the file.
func (f *FileTracker) Key(ev *dftracer.Event) Key { return f.group.key(ev) }

// Owner returns the process that wrote the file.
func (f *FileTracker) Owner() *Process { return f.Process(f.group.owner) }

// Process returns what is known about a process. A file that begins after the
// last heartbeat of the process with this id belongs to another process: ids
// are reused, in containers with every start.
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

// Of returns the process of an event, after adding the event's evidence about
// it.
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
		p.note(ev)
	case ev.TS >= 0 && ev.Dur >= 0 && ev.TS <= lastMicro-ev.Dur:
		p.LastSeen = max(p.LastSeen, (ev.TS+ev.Dur)*micro)
	}
	return p
}

// Named reports whether only the name of a file has the rank.
func (p *Process) Named() bool {
	from, known := p.who.From(identity.Rank)
	return known && from == identity.Name
}
