// Package spanstats aggregates the events of traces as a stream: time per name
// with self time and percentiles, and how much of each process's time was
// computing, I/O and communication.
//
//	agg := spanstats.New(nil)
//	_, err := dftracer.Scan(path, nil, func(ev *dftracer.Event) error {
//		agg.Add(ev)
//		return nil
//	})
//	result := agg.Result()
//
// Memory does not grow with the number of events. Counts, totals and means are
// exact; percentiles come from a histogram with buckets less than 1.6 % wide.
// Self time and unions are exact while the required data is within its limits;
// Result has the error otherwise.
package spanstats

import (
	"math"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/nest"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
)

// Options configures an Aggregator. The zero value and nil are valid.
type Options struct {
	// Classes has exceptions from the usual classes of categories.
	Classes Classes
	// MaxNames limits the distinct names of events, 32768 if zero. Further ones are
	// counted together as OtherNames of their category.
	MaxNames int
	// MaxIntervals limits the intervals for the unions, 2 million if zero. One
	// takes 16 bytes.
	MaxIntervals int
	// MaxSpans limits the spans for self times, 400,000 if zero. One takes 48
	// bytes.
	MaxSpans int
	// Starts tell which attempts belong to one run; without them, all attempts of a
	// job do.
	Starts []*rundir.Run
}

// OtherNames is the name of the events beyond MaxNames.
const OtherNames = "(other names)"

// Aggregator aggregates events. It is not safe for concurrent use.
type Aggregator struct {
	opts     Options
	names    map[nameKey]int32
	list     []*name
	self     []int64 // by number of the name
	procs    map[*job.Process]*process
	who      *job.FileTracker
	order    []*process
	file     []*process    // those of the current file
	lanes    int           // of these
	kept     int           // intervals of the others
	least    int           // their number when the smallest gaps were closed
	nodes    [][]nest.Node // memory of the lanes of previous files, for reuse
	sets     [][]nest.Interval
	counters int64
	metadata int64
	events   int64

	recent [128]int32 // names found without a look-up, by length, first and last letter
	last   *process
}

// New returns an Aggregator.
func New(opts *Options) *Aggregator {
	a := &Aggregator{names: make(map[nameKey]int32), procs: make(map[*job.Process]*process), who: job.NewTracker().File("")}
	if opts != nil {
		a.opts = *opts
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

// NextFile starts another file. who knows its processes; nil is a file without
// records. NextFile completes the use of the processes of the previous file,
// and keeps only the spans of processes that may continue in the next file.
func (a *Aggregator) NextFile(who *job.FileTracker) {
	if a.lanes = 0; who != nil {
		a.who = who
	}
	clear(a.nodes)
	clear(a.sets)
	a.nodes, a.sets = a.nodes[:0], a.sets[:0]
	for _, p := range a.file {
		p.read, p.done = false, p.account()
		p.stepped, p.kept = p.done.steps, p.allSteps()
		p.steps = job.Steps{}
		for _, l := range p.lanes {
			a.nodes = append(a.nodes, l.Rest())
		}
		p.unions(func(s *nest.Set) {
			more, used := s.Rest(s.Limit)
			a.kept, a.sets = a.kept+more, append(a.sets, used)
		})
	}
	a.file = a.file[:0]
	if a.kept <= max(a.opts.MaxIntervals/2, 2*a.least) {
		return
	}
	limit := max(a.opts.MaxIntervals/(2*int(classCount)*len(a.order)), 64)
	for _, p := range a.order {
		p.unions(func(s *nest.Set) {
			more, _ := s.Rest(limit)
			a.kept += more
		})
	}
	a.least = a.kept
}

// Add adds one event of any phase. It keeps only strings of it.
func (a *Aggregator) Add(ev *dftracer.Event) {
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
		a.who.Of(ev)
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

	p := a.processOf(ev, a.who.Of(ev))
	p.trains = p.trains || n.trains
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
	if n.steps {
		p.steps.AddEvent(ev, &n.is)
	}
	a.laneOf(p, ev.TID).Add(start, end, id, int32(min(ev.Level, math.MaxInt32)), a.self)
	for i := range ev.Args {
		if arg := &ev.Args[i]; len(arg.Key) == 5 && arg.Key == "epoch" {
			if number, ok := tracefile.Whole(*arg); ok && number >= 0 && !n.whole { // some producers write -1 for no number
				p.epochOf(number).note(n, start, end)
			}
			return
		}
	}
	if n.epoch { // numbered in their order
		p.epochOf(int64(len(p.epochs))).note(n, start, end)
	}
}

// fact reads a record about a process.
func (a *Aggregator) fact(ev *dftracer.Event) {
	who := a.who.Of(ev)
	if ev.Name == tracefile.NameCustom {
		a.processOf(ev, who).steps.AddRecord(ev)
	}
	if ev.Name == tracefile.NameProcessName {
		p := a.processOf(ev, who)
		p.label, _ = ev.Meta()
	}
}

func (a *Aggregator) nameOf(ev *dftracer.Event) int32 {
	key := nameKey{ev.Cat, ev.Name}
	at := 7*len(ev.Name) + len(ev.Cat)
	if n := len(ev.Name); n > 0 {
		at += int(ev.Name[0]) + 3*int(ev.Name[n-1])
	}
	recent := &a.recent[at%len(a.recent)]
	if id := *recent; int(id) < len(a.list) && a.list[id].key == key {
		return id
	}
	id, ok := a.names[key]
	if !ok {
		if len(a.list) >= a.opts.MaxNames && ev.Name != OtherNames {
			other := *ev
			other.Name = OtherNames
			return a.nameOf(&other)
		}
		id = int32(len(a.list))
		a.names[key] = id
		m := vocab.Of(ev.Cat, ev.Name)
		a.list = append(a.list, &name{
			key: key, class: a.opts.Classes.classOf(ev.Cat, &m), profile: m.Class == vocab.ClassDetail && !a.opts.Classes.NoKernels,
			epoch: m.Name == spans.Epoch, whole: m.Name == spans.TrainingLoop || m.Name == spans.Application, steps: job.SaysSteps(&m, ev), is: m,
			trains: m.Name == spans.Application || job.Trains(m.Name),
		})
		a.self = append(a.self, 0)
	}
	*recent = id
	return id
}

func (a *Aggregator) processOf(ev *dftracer.Event, who *job.Process) *process {
	if a.last != nil && a.last.who == who && a.last.read {
		return a.last
	}
	p := a.procs[who]
	if p == nil {
		p = &process{who: who, host: a.who.Key(ev).Host, lanes: make(map[int64]*nest.Tree), epochs: make(map[int64]*epoch)}
		a.procs[who] = p
		a.order = append(a.order, p)
	}
	if !p.read {
		p.read, p.done = true, nil
		a.file = append(a.file, p)
	}
	a.last = p
	return p
}

func (a *Aggregator) laneOf(p *process, tid int64) *nest.Tree {
	if p.lastLane != nil && p.lastTID == tid {
		return p.lastLane
	}
	l := p.lanes[tid]
	if l == nil {
		a.lanes++
		l = nest.NewTree(take(&a.nodes), min(max(a.opts.MaxSpans/a.lanes, 64), 4096))
		p.lanes[tid] = l
	}
	p.lastTID, p.lastLane = tid, l
	return l
}

func (a *Aggregator) intervals(of **nest.Set) *nest.Set {
	s := *of
	if s == nil {
		s = nest.NewSet(take(&a.sets))
		*of = s
	}
	s.Limit = max(a.opts.MaxIntervals/(int(classCount)*len(a.file)), 64)
	return s
}

// take returns memory for reuse, nil if there is none.
func take[T any](from *[][]T) (s []T) {
	if n := len(*from); n > 0 {
		s, *from = (*from)[n-1][:0], (*from)[:n-1]
	}
	return s
}
