package summary

import (
	"math"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
)

// Options configures an Aggregator. The zero value, and nil, are ready for use.
type Options struct {
	// Classes says which categories are computing, I/O and communication.
	Classes Classes
	// MaxNames bounds the distinct names of events, 32768 when zero. Further
	// ones are counted together as OtherNames of their category.
	MaxNames int
	// MaxIntervals bounds the stretches of time kept for the unions, 2 million
	// when zero. One takes 16 bytes.
	MaxIntervals int
	// MaxSpans bounds the spans kept for self times, 400,000 when zero. One
	// takes 48 bytes.
	MaxSpans int
}

// OtherNames is the name under which events are counted when there are too
// many names.
const OtherNames = "(other names)"

// Aggregator folds events into totals. It is not safe for concurrent use.
type Aggregator struct {
	opts     Options
	names    map[nameKey]int32
	list     []*name
	self     []int64 // by number of the name
	procs    map[procKey]*process
	order    []*process
	lanes    int
	counters int64
	metadata int64
	events   int64

	host string // of lines without one

	lastKey nameKey
	lastID  int32
	last    *process
}

type nameKey struct{ cat, name string }

type name struct {
	key   nameKey
	class Class
	epoch bool // its spans are epochs
	step  bool // its spans are training steps
	whole bool // its spans last for all epochs; an epoch that they name is the last one

	profile bool // its spans may be kernels
	hist    Histogram
	total   int64
}

// New returns an Aggregator.
func New(opts *Options) *Aggregator {
	a := &Aggregator{names: make(map[nameKey]int32), procs: make(map[procKey]*process)}
	if opts != nil {
		a.opts = *opts
	}
	if a.opts.Classes.empty() {
		a.opts.Classes = DefaultClasses()
	}
	for _, d := range [...]struct {
		field *int
		value int
	}{{&a.opts.MaxNames, 1 << 15}, {&a.opts.MaxIntervals, 2_000_000}, {&a.opts.MaxSpans, 400_000}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	return a
}

// NextFile says that the following events are from another file.
func (a *Aggregator) NextFile() { a.host = "" }

// Add takes one event, whatever its phase. It keeps nothing of it but strings.
func (a *Aggregator) Add(ev *dftracer.Event) {
	if ev.HostHash != "" && a.host == "" {
		a.host = ev.HostHash
	}
	switch ev.Phase {
	case dftracer.PhaseMetadata:
		a.metadata++
		a.fact(ev)
		return
	case dftracer.PhaseComplete:
	default:
		a.counters++
		return
	}
	if ev.Cat == dftracer.CatDFTracer {
		a.metadata++
		if arg, ok := ev.Arg("attempt"); ok && ev.Name == dftracer.NameStart {
			a.processOf(ev).attempt = arg.Int64()
		}
		return
	}
	a.events++
	start, end := ev.TS, ev.TS+max(ev.Dur, 0)
	if end < start {
		end = math.MaxInt64
	}
	id := a.nameOf(ev)
	n := a.list[id]
	n.hist.Add(end - start)
	n.total += end - start

	p := a.processOf(ev)
	if p.events == 0 || start < p.start {
		p.start = start
	}
	p.end = max(p.end, end)
	p.events++
	if n.class != Other {
		a.intervals(&p.busy[n.class]).Add(start, end)
	} else if n.profile {
		switch class := device(ev); class {
		case Other:
		case Compute:
			a.intervals(&p.kernels).Add(start, end)
		default:
			a.intervals(&p.busy[class]).Add(start, end)
		}
	}
	a.laneOf(p, ev.TID).add(start, end, id, int32(min(ev.Level, math.MaxInt32)), a.self)
	for i := range ev.Args {
		if arg := &ev.Args[i]; len(arg.Key) == 5 && arg.Key == "epoch" {
			if number := arg.Int64(); number >= 0 && !n.whole { // some producers write -1 for none
				p.epochOf(number).note(n, start, end)
			}
			return
		}
	}
	if n.epoch { // numbered in the order they come
		p.epochOf(int64(len(p.epochs))).note(n, start, end)
	}
}

// fact looks for the rank of a process.
func (a *Aggregator) fact(ev *dftracer.Event) {
	if ev.Name != dftracer.NameProcess && ev.Name != dftracer.NameProcessName {
		return
	}
	key, value := ev.Meta()
	switch {
	case ev.Name == dftracer.NameProcess && key == "rank":
		a.processOf(ev).rank = value
	case ev.Name == dftracer.NameProcessName:
		a.processOf(ev).label = key
	}
}

func (a *Aggregator) classOf(ev *dftracer.Event) Class {
	if body(ev.Name) {
		return Other
	}
	return a.opts.Classes.Of(ev.Cat)
}

func (a *Aggregator) nameOf(ev *dftracer.Event) int32 {
	key := nameKey{ev.Cat, ev.Name}
	if key == a.lastKey && len(a.list) > 0 {
		return a.lastID
	}
	id, ok := a.names[key]
	if !ok {
		if len(a.list) >= a.opts.MaxNames && ev.Name != OtherNames {
			other := *ev
			other.Name = OtherNames
			return a.nameOf(&other)
		}
		id = int32(len(a.list))
		lower := strings.ToLower(ev.Cat)
		a.names[key] = id
		a.list = append(a.list, &name{
			key: key, class: a.classOf(ev), profile: lower == profileCategory && !a.opts.Classes.NoKernels,
			epoch: lower == "pipeline" && (ev.Name == "epoch.block" || ev.Name == "epoch") || ev.Name == "DLIOBenchmark._train",
			whole: lower == "pipeline" && ev.Name == "train" || lower == "ai_root",
			step:  lower == "pipeline" && (ev.Name == "train.iteration" || ev.Name == "iteration" || strings.HasPrefix(ev.Name, "ProfilerStep")),
		})
		a.self = append(a.self, 0)
	}
	a.lastKey, a.lastID = key, id
	return id
}

func (a *Aggregator) processOf(ev *dftracer.Event) *process {
	host := ev.HostHash
	if host == "" {
		host = a.host
	}
	key := procKey{host, ev.PID}
	if a.last != nil && a.last.key == key {
		return a.last
	}
	p := a.procs[key]
	if p == nil {
		p = &process{key: key, attempt: -1, lanes: make(map[int64]*lane), epochs: make(map[int64]*epoch)}
		a.procs[key] = p
		a.order = append(a.order, p)
	}
	a.last = p
	return p
}

func (a *Aggregator) laneOf(p *process, tid int64) *lane {
	if p.lastLane != nil && p.lastTID == tid {
		return p.lastLane
	}
	l := p.lanes[tid]
	if l == nil {
		a.lanes++
		l = newLane(min(max(a.opts.MaxSpans/a.lanes, 64), 4096))
		p.lanes[tid] = l
	}
	p.lastTID, p.lastLane = tid, l
	return l
}

func (a *Aggregator) intervals(of **Intervals) *Intervals {
	s := *of
	if s == nil {
		s = &Intervals{}
		*of = s
	}
	s.limit = max(a.opts.MaxIntervals/(int(classCount)*len(a.order)), 64)
	return s
}
