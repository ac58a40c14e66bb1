package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
)

const (
	maxSaves = 20_000 // checkpoint spans per process: one per minute for two weeks
	maxNames = 256    // span names per process
	topSpans = 6      // slowest spans per name and process
	topTable = 24     // slowest spans in a report

	maxCompiled = 4096 // compilations per process
)

// details holds the data of a report besides the ledger and the steps.
type details struct {
	checkpoints []Checkpoint
	moreSaves   int64 // saved checkpoints that are not in checkpoints
	slowest     []SlowSpan
	compiled    []Recompilation // also those of first steps
	spans       int64
}

func newDetailSink(p *job.Process) *detailSink {
	return &detailSink{proc: p, names: make(map[string]*nameStat), saves: make(map[uint64]save), moreStep: job.Unknown}
}

// save is one span of a checkpoint.
type save struct {
	name       string
	step       int64 // a value less than job.Unknown means an unknown step, see stepBetween
	start, end int64
	background bool
	failed     bool
}

// nameStat holds statistics of the spans of one name.
type nameStat struct {
	name  string
	count int64
	total int64
	top   []slow // the longest first
}

type slow struct {
	id         uint64
	start, dur int64
	step       int64
}

type detailSink struct {
	proc   *job.Process
	names  map[string]*nameStat
	recent [16]*nameStat // found without a look-up in names
	last   string        // if names is full: the name to replace next
	saves  map[uint64]save
	lost   []lostSave // until Close

	more, moreStep int64 // saved checkpoints that are not in saves, and the step of the last one

	compiling []compiled      // until Close
	compiled  []Recompilation // by step
}

// lostSave is a checkpoint of a step that could not be stored.
type lostSave struct {
	step, time int64
	async      bool // it was being saved in the background
}

// compiled is one compilation.
type compiled struct {
	start, end, thread int64
	reason             string
}

// Event uses only the failures of saves: reports do not show events.
func (d *detailSink) Event(e *job.Event) {
	if e.Name == spans.EventSaveCheckpointFailure && e.Step >= 0 && len(d.lost) < maxSaves {
		d.lost = append(d.lost, lostSave{step: e.Step, time: e.Time})
	}
}

// Close assigns checkpoint spans without a recorded step to the interval between two steps.
// The spans in the same interval are one checkpoint.
func (d *detailSink) Close() error {
	for id, sv := range d.saves {
		if sv.name != spans.CheckpointLoad && !sv.failed && slices.ContainsFunc(d.lost, func(l lostSave) bool {
			return l.step == sv.step && l.time >= sv.start && (!l.async || sv.name == spans.CheckpointSaveAsync)
		}) {
			sv.failed = true
			d.saves[id] = sv
		}
	}
	d.lost = nil
	its := d.proc.Steps.All()
	for id, sv := range d.saves {
		if sv.step == job.Unknown && len(its) > 0 {
			n, _ := slices.BinarySearchFunc(its, sv.start, func(st job.Step, at int64) int { return cmp.Compare(st.Start, at) })
			sv.step = stepBetween(n)
			d.saves[id] = sv
		}
	}
	d.compiled, d.compiling = compiledSteps(&d.proc.Steps, d.compiling), nil
	return nil
}

// stepBetween returns the step value of a checkpoint without a step that was saved after steps
// steps had begun. It is less than job.Unknown.
func stepBetween(steps int) int64 { return job.Unknown - 1 - int64(steps) }

// Span adds a span. It ignores spans without an end.
func (d *detailSink) Span(s *job.Span) {
	if s.End == job.NoEnd {
		return
	}
	switch s.Name {
	case spans.CheckpointSaveSync, spans.CheckpointSaveAsync, spans.CheckpointSaveFinalization, spans.CheckpointLoad:
		if len(d.saves) >= maxSaves {
			d.countMore(s)
		} else {
			d.saves[s.ID] = save{name: s.Name, step: s.Step, start: s.Start, end: s.End, background: s.Background, failed: s.Failed}
			if s.Failed && s.Name == spans.CheckpointSaveFinalization && s.Step >= 0 {
				d.lost = append(d.lost, lostSave{step: s.Step, time: s.Start, async: true})
			}
		}
	}
	if s.Class == vocab.ClassCompile && len(d.compiling) < maxCompiled {
		d.compiling = append(d.compiling, compiled{s.Start, s.End, s.Thread, strings.Clone(s.Reason)})
	}
	if n := d.name(s.Name); n != nil {
		n.add(slow{id: s.ID, start: s.Start, dur: s.End - s.Start, step: s.Step})
	}
}

// countMore counts a save that is not kept. The files of a step are one checkpoint.
func (d *detailSink) countMore(s *job.Span) {
	saved := s.Name == spans.CheckpointSaveSync || s.Name == spans.CheckpointSaveAsync
	if saved && !s.Failed && (s.Step == job.Unknown || s.Step != d.moreStep) {
		d.more, d.moreStep = d.more+1, s.Step
	}
}

// name returns the statistics of a name, or nil if the name is not counted. If there are more
// than maxNames, it keeps the first in the order of byPlace: the result must not depend on the
// order of spans, which is undefined for several threads.
func (d *detailSink) name(name string) *nameStat {
	at := len(name)
	if name != "" {
		at += int(name[0])
	}
	recent := &d.recent[at%len(d.recent)]
	if n := *recent; n != nil && n.name == name {
		return n
	}
	if n := d.names[name]; n != nil {
		*recent = n
		return n
	}
	if info, ok := spans.Lookup(name); ok && info.Long {
		return nil
	}
	if len(d.names) >= maxNames {
		if d.last == "" {
			d.last = slices.MaxFunc(slices.Collect(maps.Keys(d.names)), byPlace)
		}
		if byPlace(name, d.last) > 0 {
			return nil
		}
		delete(d.names, d.last)
		clear(d.recent[:])
		d.last = ""
	}
	n := &nameStat{name: name}
	d.names[name] = n
	return n
}

// byPlace compares names: those of the vocabulary come before those of a program.
func byPlace(a, b string) int {
	_, x := spans.Lookup(a)
	_, y := spans.Lookup(b)
	if x != y {
		if x {
			return -1
		}
		return 1
	}
	return cmp.Compare(a, b)
}

// longer compares spans, the longest first.
func (s slow) longer(o slow) int {
	return cmp.Or(cmp.Compare(o.dur, s.dur), cmp.Compare(s.start, o.start), cmp.Compare(s.id, o.id))
}

func (n *nameStat) add(s slow) {
	n.count++
	n.total += s.dur
	if len(n.top) == topSpans {
		if last := n.top[topSpans-1]; s.dur < last.dur || s.longer(last) >= 0 {
			return
		}
	}
	if slices.ContainsFunc(n.top, func(o slow) bool { return o.id == s.id && o.start == s.start }) {
		return // a copy
	}
	if len(n.top) == topSpans {
		n.top = n.top[:topSpans-1]
	}
	at, _ := slices.BinarySearchFunc(n.top, s, slow.longer)
	n.top = slices.Insert(n.top, at, s)
}

// detailsOf merges the details of the processes of a job.
func detailsOf(j *job.Job, of func(*job.Process) *detailSink) *details {
	out := &details{}
	usual := make(map[string]*nameStat)
	for _, p := range j.Processes {
		s := of(p)
		if s == nil {
			continue
		}
		out.spans += p.Spans
		for name, n := range s.names {
			u := usual[name]
			if u == nil {
				u = &nameStat{}
				usual[name] = u
			}
			u.count += n.count
			u.total += n.total
		}
	}
	type key struct {
		attempt int
		step    int64
		load    bool
		failed  bool
		nth     int // index among those without a step
	}
	points := make(map[key]*Checkpoint)
	incomplete := make(map[key]bool) // a file or a rank of it failed
	more := make(map[int]int64)      // by attempt
	for _, p := range j.Processes {
		s := of(p)
		if s == nil {
			continue
		}
		for name, n := range s.names {
			mean := usual[name].total / usual[name].count
			for _, t := range n.top {
				if t.dur > mean {
					out.slowest = append(out.slowest, SlowSpan{Name: name, Rank: p.Rank, Attempt: p.Attempt, Step: t.step, Start: t.start, Duration: t.dur, Usual: mean})
				}
			}
		}
		more[p.Attempt] = max(more[p.Attempt], s.more)
		nth := make(map[string]int)
		files := make(map[*Checkpoint]*[2]held)
		last := make(map[key]bool) // whether the last file of a checkpoint failed: one that fails may be tried again
		var before *save
		for _, sv := range slices.SortedFunc(maps.Values(s.saves), func(a, b save) int {
			return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end), cmp.Compare(b.step, a.step), cmp.Compare(a.name, b.name))
		}) {
			// A save that both a framework and the program recorded counts once.
			if before != nil && sv.start >= before.start && sv.end <= before.end && sv.background == before.background {
				continue
			}
			before = &sv
			k := key{attempt: p.Attempt, step: sv.step, load: sv.name == spans.CheckpointLoad}
			if sv.step == job.Unknown {
				nth[sv.name]++
				k.nth = nth[sv.name]
			}
			last[k] = sv.failed
			k.failed = sv.failed
			c := points[k]
			if c == nil {
				c = &Checkpoint{Attempt: p.Attempt, Step: max(sv.step, job.Unknown), Load: k.load, Failed: k.failed, Start: sv.start}
				points[k] = c
			}
			if files[c] == nil {
				files[c] = new([2]held)
			}
			c.add(p.Rank, &sv, files[c])
		}
		for k, failed := range last {
			incomplete[k] = incomplete[k] || failed
		}
	}
	for k, failed := range incomplete {
		if failed {
			delete(points, k) // its failure stays
		}
	}
	slices.SortFunc(out.slowest, func(a, b SlowSpan) int {
		return cmp.Or(cmp.Compare(b.Duration-b.Usual, a.Duration-a.Usual), cmp.Compare(a.Start, b.Start), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Name, b.Name))
	})
	out.slowest = alike(out.slowest)
	out.slowest = out.slowest[:min(len(out.slowest), topTable)]
	for _, c := range points {
		out.checkpoints = append(out.checkpoints, *c)
	}
	for _, n := range more {
		out.moreSaves += n
	}
	for _, p := range j.Processes {
		if s := of(p); s != nil {
			for _, c := range s.compiled {
				c.Rank, c.Attempt = p.Rank, p.Attempt
				out.compiled = append(out.compiled, c)
			}
		}
	}
	slices.SortFunc(out.checkpoints, func(a, b Checkpoint) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Step, b.Step))
	})
	return out
}

// alike keeps only the slowest of the spans of one name that several ranks had in the
// same step, or in the same second if the step is unknown: they have one cause.
func alike(list []SlowSpan) []SlowSpan {
	type key struct {
		name    string
		attempt int
		at      int64
	}
	first := make(map[key]int)
	type of struct{ row, rank int }
	counted := make(map[of]bool)
	out := list[:0]
	for _, s := range list {
		k := key{name: s.Name, attempt: s.Attempt, at: s.Step}
		if s.Step < 0 {
			k.at = -s.Start / 1e9
		}
		i, seen := first[k]
		if !seen {
			first[k] = len(out)
			out = append(out, s)
			continue
		}
		if s.Rank != out[i].Rank && !counted[of{i, s.Rank}] {
			counted[of{i, s.Rank}] = true
			out[i].Alike++
		}
	}
	return out
}

// held adds up the time of the files of a checkpoint in a process. Time in which they
// overlap counts once.
type held struct{ took, until int64 }

func (h *held) add(start, end int64) int64 {
	start = max(start, h.until)
	if end > start {
		h.took += end - start
		h.until = end
	}
	return h.took
}

// add adds a file. Files of a process are added in the order of their starts. of holds the
// time of the files before it: on the training thread, and in the background.
func (c *Checkpoint) add(rank int, s *save, of *[2]held) {
	c.Start = min(c.Start, s.start)
	if s.background || s.name == spans.CheckpointSaveFinalization {
		c.Background = max(c.Background, of[1].add(s.start, s.end))
		return
	}
	if took := of[0].add(s.start, s.end); took > c.Blocking {
		c.Blocking, c.Slowest = took, rank
	}
}
