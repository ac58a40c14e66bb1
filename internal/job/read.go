package job

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job/rundir"
)

// Read reads all files once and assembles the jobs. It calls open for each
// process that it finds, passes the process's records to the sink, and closes
// it. Several processes are read at a time: open must be safe for concurrent
// use, a sink need not be. A nil sink is not allowed.
//
// What a process wrote both as a trace and as JSON lines is taken from the
// trace; the lines add what only they have. Files that turn out to be
// unreadable are left out and listed in Skipped.
func (s *Set) Read(open func(*Process) Sink) ([]*Job, error) {
	procs, err := s.Processes(open)
	if err != nil {
		return nil, err
	}
	return Assemble(procs, s.Starts()...), nil
}

// Starts reads the run.json files among the files that are not telemetry.
func (s *Set) Starts() (out []*rundir.Run) {
	for _, f := range s.Skipped {
		if !rundir.IsRun(f.Path) {
			continue
		}
		if r, err := rundir.Read(f.Path); err == nil && r.IsKnown() {
			out = append(out, r)
		}
	}
	return out
}

// Processes is Read without assembling jobs: for callers that do so later, with
// processes of other sets. See [Assemble].
func (s *Set) Processes(open func(*Process) Sink) ([]*Process, error) {
	r := &reading{set: s, open: open}
	r.eachParallel(len(s.records), func(i int) { r.lines(s.records[i]) })
	r.eachParallel(len(s.traces), func(i int) { r.traces(s.traces[i]) })
	if err := s.stopped(); err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	if r.err != nil {
		return nil, fmt.Errorf("run: %w", r.err)
	}
	for _, g := range s.traces {
		g.extra = nil
	}
	// Files are read concurrently and come in any order.
	slices.SortStableFunc(s.Skipped, func(a, b *FileError) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(r.procs, ByTime)
	return r.procs, nil
}

type reading struct {
	set  *Set
	open func(*Process) Sink

	mu    sync.Mutex
	procs []*Process
	err   error // of sinks
}

// eachParallel runs do for 0 to n-1 on several goroutines.
func (r *reading) eachParallel(n int, do func(int)) {
	r.set.each(n, func(i int) {
		if r.set.stopped() == nil {
			do(i)
		}
	})
}

func (r *reading) skip(path string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set.Skipped = append(r.set.Skipped, &FileError{path, err})
}

func (r *reading) add(err error, procs ...*Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.procs = append(r.procs, procs...)
	r.err = errors.Join(r.err, err)
}

// lines reads a file of JSON lines. Processes that also have a trace are kept
// until it is read.
func (r *reading) lines(path string) {
	from, err := readRecords(path, r.set.Arguments != nil)
	if err != nil {
		r.skip(path, err)
		return
	}
	for _, p := range from.order {
		sinks := make(map[*records]Sink)
		for _, x := range p.parts {
			if x.proc.LastSeen == Unknown {
				continue
			}
			if g := x.sameTraces(r.set.traces); g != nil {
				r.attach(g, x)
			} else {
				sinks[x] = r.open(x.proc)
			}
		}
		if len(sinks) == 0 {
			continue
		}
		var at *records
		var to Sink
		arguments := func([]dftracer.Arg) {}
		p.eachSpan(func(s *heldSpan) {
			x := p.processAt(s.Start)
			if x != at {
				if at, to = x, sinks[x]; to != nil && r.set.Arguments != nil {
					arguments = r.set.Arguments(x.proc)
				}
			}
			if to == nil {
				return
			}
			s.mark() // as it was read
			arguments(s.args)
			x.proc.hand(&s.Span, to)
		})
		for _, x := range p.parts {
			sink := sinks[x]
			if sink == nil {
				continue
			}
			for i := range x.events {
				x.proc.deliver(&x.events[i], sink)
			}
			r.add(x.proc.shut(sink), x.proc)
		}
	}
	r.add(errors.Join(from.failed, from.spans.Close()))
}

func (r *reading) attach(g *group, x *records) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g.extra = append(g.extra, x)
}

func (r *reading) traces(g *group) {
	procs, err := r.set.readTraces(g, r.open, r.skip)
	r.add(err, procs...)
}

// Assemble makes jobs of processes and sets the numbers without a record: it
// changes the processes. Their order is irrelevant; a copy of a process changes
// nothing. Starts determine which attempts belong to one run; of the runs of
// one session tag the latest comes first.
func Assemble(procs []*Process, starts ...*rundir.Run) []*Job {
	procs = withoutCopies(slices.SortedFunc(slices.Values(procs), ByTime))
	type ident struct{ id, tag string }
	jobs := make(map[ident]*Job)
	var order []*Job
	var rest []*Process
	for _, p := range procs {
		key := ident{p.JobID, p.SessionTag}
		if p.SessionTag != "" {
			key.id = "" // a restart may have another launcher id
		}
		if key == (ident{}) {
			rest = append(rest, p)
			continue
		}
		j := jobs[key]
		if j == nil {
			j = &Job{ID: p.JobID, SessionTag: p.SessionTag}
			jobs[key] = j
			order = append(order, j)
		}
		j.add(p)
	}
	if len(rest) > 0 {
		// A process without a job belongs to the only job there is, or to a separate
		// one.
		if len(order) != 1 {
			order = append(order, &Job{})
		}
		for _, p := range rest {
			order[len(order)-1].add(p)
		}
	}
	var out []*Job
	for _, all := range order {
		for _, j := range all.splitDuplicates() {
			j.settle()
			runs := j.runs(starts)
			for _, r := range runs {
				r.Group = len(all.Processes)
			}
			slices.Reverse(runs)
			out = append(out, runs...)
		}
	}
	name(out)
	return out
}

// withoutCopies leaves out the processes whose spans were sent by OTLP if
// another file of the process has the same spans, so that they do not count
// twice. A profile has only some of them: see single.
func withoutCopies(procs []*Process) []*Process {
	own := make(map[int64][]*Process)
	for _, p := range procs {
		if !p.Exported && !p.Profile && p.spanned() {
			own[p.PID] = append(own[p.PID], p)
		}
	}
	return slices.DeleteFunc(procs, func(p *Process) bool {
		if !p.Exported {
			return false
		}
		i := slices.IndexFunc(own[p.PID], func(o *Process) bool {
			return (o.Host == p.Host || o.Host == "") && o.Start < p.LastSeen && p.Start < o.LastSeen && (!o.RankKnown || !p.RankKnown || o.Rank == p.Rank)
		})
		if i >= 0 {
			o := own[p.PID][i]
			o.Sources = append(o.Sources, p.Sources...)
		}
		return i >= 0
	})
}

// unite merges processes that are copies of each other.
func (j *Job) unite() {
	type ident struct {
		start, seen, end, pid int64
		host                  string
		known                 bool
		rank                  int
		digest                uint64
	}
	first := make(map[ident]*Process, len(j.Processes))
	out := j.Processes[:0]
	for _, p := range j.Processes {
		key := ident{p.Start, p.LastSeen, p.End, p.PID, p.Host, p.RankKnown, p.Rank, p.digest}
		if o := first[key]; o != nil {
			o.Sources = append(o.Sources, p.Sources...)
			continue
		}
		first[key] = p
		out = append(out, p)
	}
	j.Processes = out
}

// single keeps one record of each process, because the same process may have
// been recorded in two ways, by its own spans and by a profiler's file, and
// must not count twice. The record of the training wins, then one with spans,
// then the one that covers more time. A file without spans of a process, such
// as one of processor samples, is an additional source of the process, not a
// process.
func (j *Job) single() {
	type ident struct {
		host string
		pid  int64
	}
	of := make(map[ident][]*Process)
	for _, p := range j.Processes {
		if p.PID > 0 && p.Host != "" {
			of[ident{p.Host, p.PID}] = append(of[ident{p.Host, p.PID}], p)
		}
	}
	j.Processes = slices.DeleteFunc(j.Processes, func(p *Process) bool {
		list := of[ident{p.Host, p.PID}]
		i := slices.IndexFunc(list, func(o *Process) bool {
			return o != p && o.Start < p.LastSeen && p.Start < o.LastSeen && (o.Rank == p.Rank || !p.spanned()) && o.betterThan(p)
		})
		switch {
		case i < 0:
		case p.spanned(), len(p.Failures) > 0: // it may report how another process failed
			j.Helpers = append(j.Helpers, p)
		default:
			list[i].Sources = append(list[i].Sources, p.Sources...)
			list[i].Damage.add(&p.Damage)
			list[i].Samples = list[i].Samples.With(p.Samples)
		}
		return i >= 0
	})
}

// spanned reports whether there is a span, ended or not.
func (p *Process) spanned() bool { return p.digest != 0 }

// betterThan reports whether p is the better of two records of one process. The
// order is strict.
func (p *Process) betterThan(o *Process) bool {
	if p.Training != o.Training {
		return p.Training
	}
	if p.spanned() != o.spanned() {
		return p.spanned()
	}
	return cmp.Or(cmp.Compare(p.LastSeen-p.Start, o.LastSeen-o.Start), cmp.Compare(p.Spans, o.Spans), -ByTime(p, o)) > 0
}

// settle separates training processes from helpers and numbers them.
func (j *Job) settle() {
	slices.SortStableFunc(j.Processes, ByTime)
	j.unite()
	j.single()
	prepares, beside := preparations(j.Processes), relatives(j.Processes)
	trains := slices.ContainsFunc(j.Processes, func(p *Process) bool { return p.Training })
	j.Processes = slices.DeleteFunc(j.Processes, func(p *Process) bool {
		helper := trains && !p.Training || p.Spans == 0 && !p.Training || prepares(p) || beside(p)
		if helper {
			j.Helpers = append(j.Helpers, p)
		}
		return helper
	})
	j.number()
	slices.SortStableFunc(j.Processes, func(a, b *Process) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Start, b.Start))
	})
}

// number sets ranks and attempts of processes without recorded ones. Processes
// come by start. Those without a rank that run at the same time are different
// ranks; a process that begins after the last heartbeat of the previous one of
// its rank is the next attempt.
//
// If a launcher does not count, every attempt records the same number. An
// attempt that follows another of its rank and records no higher number shows
// this: then the recorded numbers of the job are only lower bounds, and the
// times decide.
func (j *Job) number() {
	ofJob := make(map[string]*freeRanks) // processes with another id are not other ranks
	for _, p := range j.Processes {
		ranks := ofJob[p.JobID]
		if ranks == nil {
			ranks = &freeRanks{last: make(map[int]*Process)}
			ofJob[p.JobID] = ranks
		}
		if !p.RankKnown {
			p.Rank = ranks.lowest(p)
		}
		ranks.take(p)
	}
	if !j.attempts(true) {
		j.attempts(false)
	}
	j.atOnce()
}

// attempts sets the numbers of the attempts, and returns false if the recorded
// ones cannot be trusted.
func (j *Job) attempts(trusted bool) bool {
	last := make(map[int]*Process) // by rank
	now := newRunning(j.Processes)
	for _, p := range j.Processes {
		before, recorded := last[p.Rank], p.recordedAttempt()
		if before != nil && recorded > 0 && trusted && recorded <= before.Attempt && p.Start >= before.LastSeen {
			return false
		}
		if p.AttemptKnown = recorded > 0 && trusted; p.AttemptKnown {
			p.Attempt = recorded
		} else {
			p.Attempt = max(recorded, attemptOf(p, before, now.latestAt(p.Start)))
		}
		now.put(p)
		if before == nil || p.LastSeen > before.LastSeen {
			last[p.Rank] = p
		}
	}
	// A rank may be the first to start in an attempt that is not its first.
	for _, p := range j.Processes {
		if p.AttemptKnown {
			continue
		}
		p.Attempt = max(p.Attempt, now.latestAt(p.Start+(p.LastSeen-p.Start)/2))
		now.put(p)
	}
	return true
}

// AttemptAt returns the latest attempt that runs at a time, or 0.
func (j *Job) AttemptAt(t int64) int {
	if j.at == nil {
		j.at = newRunning(j.Processes)
		for _, p := range j.Processes {
			j.at.put(p)
		}
	}
	return j.at.latestAt(t)
}

// attemptOf infers the attempt of p, which comes after another process of its
// rank, while others processes of an attempt run.
func attemptOf(p, before *Process, others int) int {
	switch {
	case before == nil:
		return max(1, others)
	case p.Start < before.LastSeen:
		return before.Attempt // both at the same time: two writers
	}
	return max(before.Attempt+1, others)
}

// Sinks is a [Sink] that passes everything to several sinks.
type Sinks []Sink

// Span implements Sink.
func (all Sinks) Span(s *Span) {
	for _, to := range all {
		to.Span(s)
	}
}

// Event implements Sink.
func (all Sinks) Event(e *Event) {
	for _, to := range all {
		to.Event(e)
	}
}

// Close closes all of them, and returns the first error.
func (all Sinks) Close() error {
	var failed error
	for _, to := range all {
		failed = cmp.Or(failed, to.Close())
	}
	return failed
}
