package run

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
)

// Read reads all files once and puts the jobs together. It calls open for
// each process that it meets, gives the sink what the process recorded, and
// closes it. Several processes are read at a time: open must be safe for
// concurrent use, a sink need not be. A nil sink is not allowed.
//
// What a process wrote both as a trace and as JSON lines is taken from the
// trace; the lines add what only they say. Files that turn out to be
// unreadable are left out and listed in Skipped.
func (s *Set) Read(open func(*Process) Sink) ([]*Job, error) {
	procs, err := s.Processes(open)
	if err != nil {
		return nil, err
	}
	return Assemble(procs), nil
}

// Processes is Read without putting the processes together: for those who do so
// later, with processes of other sets. See [Assemble].
func (s *Set) Processes(open func(*Process) Sink) ([]*Process, error) {
	r := &reading{set: s, open: open}
	workers := s.workers()
	r.each(workers, len(s.records), func(i int) { r.lines(s.records[i]) })
	r.each(workers, len(s.traces), func(i int) { r.traces(s.traces[i]) })
	if err := s.stopped(); err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	if r.err != nil {
		return nil, fmt.Errorf("run: %w", r.err)
	}
	for _, g := range s.traces {
		g.extra = nil
	}
	return r.procs, nil
}

func (s *Set) workers() int {
	if s.Workers > 0 {
		return s.Workers
	}
	return runtime.GOMAXPROCS(0)
}

func (s *Set) stopped() error {
	if s.Stop == nil {
		return nil
	}
	return s.Stop()
}

type reading struct {
	set  *Set
	open func(*Process) Sink

	mu    sync.Mutex
	procs []*Process
	err   error // of sinks
}

// each runs do for 0 to n-1 on several goroutines.
func (r *reading) each(workers, n int, do func(int)) {
	inParallel(workers, n, func(i int) {
		if r.set.stopped() == nil {
			do(i)
		}
	})
}

func inParallel(workers, n int, do func(int)) {
	var wait sync.WaitGroup
	next := make(chan int)
	for range min(workers, n) {
		wait.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wait.Wait()
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

// lines reads a file of JSON lines. Processes that have a trace too are kept
// until it is read.
func (r *reading) lines(path string) {
	list, err := readRecords(path)
	if err != nil {
		r.skip(path, err)
		return
	}
	for _, x := range list {
		if g := x.twin(r.set.traces); g != nil && r.attach(g, x) {
			continue
		}
		sink := r.open(x.proc)
		for i := range x.spans {
			sink.Span(&x.spans[i])
		}
		for i := range x.events {
			sink.Event(&x.events[i])
		}
		x.proc.finish()
		r.add(sink.Close(), x.proc)
	}
}

func (r *reading) attach(g *group, x *records) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	x.spans = nil
	if g.extra == nil {
		g.extra = x
		return true
	}
	g.extra.events = append(g.extra.events, x.events...)
	g.extra.proc.Sources = append(g.extra.proc.Sources, x.proc.Sources...)
	g.extra.proc.identify(x.proc)
	return true
}

func (r *reading) traces(g *group) {
	procs, err := r.set.readTraces(g, r.open, r.skip)
	r.add(err, procs...)
}

// Assemble makes jobs of processes and gives the numbers that no record says:
// it changes the processes. Their order is irrelevant; a copy of a process that
// is there changes nothing.
func Assemble(procs []*Process) []*Job {
	procs = slices.SortedFunc(slices.Values(procs), byTime)
	type ident struct{ id, tag string }
	jobs := make(map[ident]*Job)
	var order []*Job
	var rest []*Process
	for _, p := range procs {
		key := ident{p.JobID, p.SessionTag}
		if p.SessionTag != "" {
			key.id = "" // a restart may have another id at the launcher
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
		// What does not say to which job it belongs is of the only one there
		// is, or a job of its own.
		if len(order) != 1 {
			order = append(order, &Job{})
		}
		for _, p := range rest {
			order[len(order)-1].add(p)
		}
	}
	for _, j := range order {
		j.settle()
	}
	return order
}

// byTime orders processes by start, and those that began together by
// whatever tells them apart.
func byTime(a, b *Process) int {
	return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.LastSeen, b.LastSeen), cmp.Compare(a.Rank, b.Rank),
		cmp.Compare(a.PID, b.PID), cmp.Compare(a.Host, b.Host), slices.Compare(a.Sources, b.Sources))
}

func (j *Job) add(p *Process) {
	j.Ranks = max(j.Ranks, p.WorldSize)
	if j.ID == "" {
		j.ID = p.JobID
	}
	j.Processes = append(j.Processes, p)
}

// unite makes one process of those that are copies of each other.
func (j *Job) unite() {
	out := j.Processes[:0]
	for _, p := range j.Processes {
		i := slices.IndexFunc(out, func(o *Process) bool { return p.copies(o) })
		if i < 0 {
			out = append(out, p)
			continue
		}
		out[i].Sources = append(out[i].Sources, p.Sources...)
	}
	j.Processes = out
}

func (p *Process) copies(o *Process) bool {
	return p.Start == o.Start && p.LastSeen == o.LastSeen && p.End == o.End && p.PID == o.PID && p.Host == o.Host &&
		p.RankKnown == o.RankKnown && p.Rank == o.Rank && p.digest == o.digest
}

// single takes one account of each process: the same may have been recorded in two
// ways, by its own spans and by a profiler's file, and must not count twice. That
// of the training wins, then the one that knows more of the time.
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
		double := slices.ContainsFunc(of[ident{p.Host, p.PID}], func(o *Process) bool {
			return o != p && o.Start < p.LastSeen && p.Start < o.LastSeen && o.Rank == p.Rank && o.betterThan(p)
		})
		if double {
			j.Helpers = append(j.Helpers, p)
		}
		return double
	})
}

// betterThan is a strict order among accounts of one process.
func (p *Process) betterThan(o *Process) bool {
	if p.Training != o.Training {
		return p.Training
	}
	return cmp.Or(cmp.Compare(p.LastSeen-p.Start, o.LastSeen-o.Start), cmp.Compare(p.Spans, o.Spans), -byTime(p, o)) > 0
}

// settle tells the training processes from their helpers and numbers them.
func (j *Job) settle() {
	slices.SortStableFunc(j.Processes, byTime)
	j.unite()
	j.single()
	trains := slices.ContainsFunc(j.Processes, func(p *Process) bool { return p.Training })
	j.Processes = slices.DeleteFunc(j.Processes, func(p *Process) bool {
		helper := trains && !p.Training || p.Spans == 0 && !p.Training
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

// number gives ranks and attempts to processes whose records do not say them.
// Processes come by start. Those without a rank that run at the same time are
// different ranks; a process that begins when the one before of its rank has
// given its last sign of life is the next attempt.
//
// Where a launcher does not count, every attempt records the same number. Two
// of one rank with one number that follow each other are such: then the
// recorded numbers of the job say nothing, and the times count.
func (j *Job) number() {
	last := make(map[int]*Process) // by rank
	trusted := true
	for _, p := range j.Processes {
		if !p.RankKnown {
			p.Rank = 0
			for last[p.Rank] != nil && last[p.Rank].LastSeen > p.Start {
				p.Rank++
			}
		}
		if before := last[p.Rank]; before != nil && p.AttemptKnown && before.AttemptKnown &&
			p.Attempt <= before.Attempt && p.Start >= before.LastSeen {
			trusted = false
		}
		if before := last[p.Rank]; before == nil || p.LastSeen > before.LastSeen {
			last[p.Rank] = p
		}
	}
	clear(last)
	for _, p := range j.Processes {
		p.AttemptKnown = p.AttemptKnown && trusted
		before := last[p.Rank]
		if !p.AttemptKnown {
			p.Attempt = j.attemptOf(p, before)
		}
		if before == nil || p.LastSeen > before.LastSeen {
			last[p.Rank] = p
		}
	}
	// A rank may be the first to start in an attempt that is not its first.
	for _, p := range j.Processes {
		if p.AttemptKnown {
			continue
		}
		for _, o := range j.Processes {
			if middle := p.Start + (p.LastSeen-p.Start)/2; o.Start <= middle && o.LastSeen > middle {
				p.Attempt = max(p.Attempt, o.Attempt)
			}
		}
	}
}

// attemptOf infers the attempt of p, which comes after another of its rank.
func (j *Job) attemptOf(p, before *Process) int {
	switch {
	case before == nil:
		return max(1, j.running(p))
	case p.Start < before.LastSeen:
		return before.Attempt // both at once: two writers
	}
	return max(before.Attempt+1, j.running(p))
}

// running is the latest attempt that began before p and had a sign of life
// after p began, 0 without one.
func (j *Job) running(p *Process) int {
	n := 0
	for _, o := range j.Processes {
		if o == p {
			break
		}
		if o.LastSeen > p.Start {
			n = max(n, o.Attempt)
		}
	}
	return n
}
