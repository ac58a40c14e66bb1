package pytorch

import (
	"math"
	"strconv"
	"time"
)

// job is what the files of one process tell of its run.
type job struct {
	start, end           int64 // nanoseconds since 1970
	trainStart, trainEnd int64 // the same; nothing when the end is 0
}

// jobKey names a process over the files of its profiler windows.
type jobKey struct {
	host      string
	pid, rank int64
}

func (p *process) jobKey() jobKey { return jobKey{p.host, p.pid, p.rank} }

// jobs puts the windows of each process together.
func jobs(procs []*process) map[jobKey]*job {
	out := map[jobKey]*job{}
	for _, p := range procs {
		if !p.hasRows() {
			continue
		}
		lo, hi := p.bounds()
		start, end := p.wall(lo), p.wall(hi)
		j := out[p.jobKey()]
		if j == nil {
			j = &job{start: start, end: end, trainStart: math.MaxInt64}
			out[p.jobKey()] = j
		}
		j.start, j.end = min(j.start, start), max(j.end, end)
		if !p.training() {
			continue
		}
		if n := len(p.steps); n > 0 {
			start, end = p.wall(p.steps[0].start), math.MinInt64
			for _, s := range p.steps {
				end = max(end, p.wall(s.end))
			}
		}
		j.trainStart, j.trainEnd = min(j.trainStart, start), max(j.trainEnd, end)
	}
	return out
}

// strayTime is how far outside the profiler's window a row may lie before its
// time is taken for wrong: the profiler writes times before its base as 0.
const strayTime = int64(time.Hour)

// bounds returns the first and the last moment of a file, in its own times.
func (p *process) bounds() (lo, hi int64) {
	lo, hi = p.first, p.last
	if p.hasWindow {
		if lo = min(lo, p.window[0]); lo < p.window[0]-strayTime {
			lo = p.window[0]
		}
		if hi = max(hi, p.window[1]); hi > p.window[1]+strayTime {
			hi = p.window[1]
		}
	}
	return lo, hi
}

func (p *process) hasRows() bool { return p.last >= p.first }

// training reports whether a file is taken for training: it shows a backward or
// an optimizer, or too few operators to tell.
func (p *process) training() bool {
	if p.report.Foreign {
		return false
	}
	return p.levelCounts[levelOp] < 2 || p.hasGloo || p.rules.seen["compute/backward"] || p.rules.seen["compute/step"] || len(p.envelopes) > 0 || len(p.fwdThreads) > 0 ||
		p.report.Compile != nil && p.report.Compile.Backward
}

// stepName is the name of a step's event.
func (p *process) stepName() string {
	if p.training() {
		return "train.iteration"
	}
	return "iteration"
}

// root writes the events that frame the run of a process, which no profiler
// records: ai_root around everything and train around the steps.
func (e *emitter) root() {
	j := e.jobs[e.p.jobKey()]
	if j == nil || e.opts.NoInference {
		return
	}
	delete(e.jobs, e.p.jobKey()) // once for all its files
	name := "job"
	if e.p.rank >= 0 {
		name = "rank " + strconv.FormatInt(e.p.rank, 10) + " job"
	}
	e.nameLane(jobLane, name)
	id := e.frame("ai_root", "ai_root", j.start, j.end, 0, "the profiler's window")
	if j.trainEnd > 0 {
		e.frame("pipeline", "train", j.trainStart, j.trainEnd, id, "the profiler's steps, or its window without any")
	}
	if j.trainEnd > 0 {
		e.p.report.guess("ai_root and train: the profiler's window and steps")
	} else {
		e.p.report.guess("ai_root: the profiler's window")
		if e.p.report.Steps > 0 {
			e.p.report.guess("no backward and no optimizer: the steps are called iteration, and there is no train")
		}
	}
}

// frame writes an inferred event between two moments since 1970.
func (e *emitter) frame(cat, name string, start, end int64, parent uint64, rule string) uint64 {
	ts := max(floorMicros(start), 0)
	e.beginAt(cat, name, jobLane, ts, max(floorMicros(end)-ts, 0))
	e.ev.ID = e.nextID()
	if parent != 0 {
		e.ev.Parent, e.ev.Level = int64(parent), 1
	}
	id := e.ev.ID
	e.int("inferred", 1)
	e.str("rule", rule)
	e.common(-1, true)
	return id
}

// earliest returns the first moment of an import, in nanoseconds since 1970, 0
// when it has none.
func (im *importer) earliest() int64 {
	first := int64(math.MaxInt64)
	for _, p := range im.procs {
		if p.hasRows() {
			lo, _ := p.bounds()
			first = min(first, p.wall(lo))
		}
	}
	for _, l := range im.logs {
		for i := range l.phases {
			first = min(first, l.phases[i].Start)
		}
	}
	if first == math.MaxInt64 {
		return 0
	}
	return max(first, 0)
}
