package pytorch

import "math"

// job is what the files of one process tell of its run.
type job struct {
	start, end           int64 // nanoseconds since 1970
	trainStart, trainEnd int64 // the same; nothing when the end is 0
}

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

// root writes the events that frame the run of a process, which no profiler
// records: ai_root around everything and train around the steps.
func (e *emitter) root(jobs map[jobKey]*job) {
	j := jobs[e.p.jobKey()]
	if j == nil || e.p.opts.NoInference {
		return
	}
	delete(jobs, e.p.jobKey()) // once for all its files
	e.nameLane(jobLane, e.p.prefix()+"job")
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
