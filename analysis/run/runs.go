package run

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/trainspan/trainspan/internal/rundir"
)

// Two starts with one session tag, which is the name of what was started, are attempts
// of one run only if a launcher says so, or if the earlier is known to be dead, the
// command is the same, and the later goes on where it was. Otherwise they are two runs,
// and the time between them is nobody's downtime. What no run.json tells of is left as
// its records say.

// runs divides a job into its runs, by time. Attempts keep their numbers.
func (j *Job) runs(all []*rundir.Run) []*Job {
	list := j.attemptStarts()
	starts := j.starts(all)
	for _, s := range starts {
		for _, a := range list {
			if of(s, a.jobs) && s.Started.UnixNano() <= a.stop && s.Seen.UnixNano() >= a.start {
				a.starts = append(a.starts, s)
			}
		}
	}
	var out []*Job
	from := 0
	for i := 1; i <= len(list); i++ {
		if i < len(list) && (len(starts) == 0 || list[i-1].before(list[i])) {
			continue
		}
		out = append(out, j.part(list[from:i]))
		from = i
	}
	if len(out) < 2 {
		j.Starts = starts
		return []*Job{j}
	}
	for _, part := range out {
		part.Starts = part.during(starts)
	}
	return out
}

// Label is the name of a run in its directory: that of what was started and the number
// of its first attempt, or what else there is.
func (j *Job) Label() string {
	first := math.MaxInt
	for _, p := range j.Processes {
		first = min(first, p.Attempt)
	}
	return fmt.Sprintf("%s.%d", cmp.Or(j.SessionTag, j.ID, "job"), first)
}

// starts are those of the job in the order of time.
func (j *Job) starts(all []*rundir.Run) (out []*rundir.Run) {
	for _, s := range all {
		if j.SessionTag == "" || s.Session == j.SessionTag {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b *rundir.Run) int { return a.Started.Compare(b.Started) })
	return out
}

// attemptStarts is what decides whether an attempt goes on with the one before.
type attemptStarts struct {
	number      int
	start, stop int64
	jobs        []string // ids that its processes say
	procs       []*Process
	starts      []*rundir.Run
}

// attemptStarts are the attempts of a job by number.
func (j *Job) attemptStarts() (list []*attemptStarts) {
	byNumber := make(map[int]*attemptStarts)
	for _, p := range j.Processes {
		a := byNumber[p.Attempt]
		if a == nil {
			a = &attemptStarts{number: p.Attempt, start: math.MaxInt64}
			byNumber[p.Attempt] = a
			list = append(list, a)
		}
		a.start, a.stop = min(a.start, p.Start), max(a.stop, p.LastSeen)
		a.procs = append(a.procs, p)
		if p.JobID != "" && !slices.Contains(a.jobs, p.JobID) {
			a.jobs = append(a.jobs, p.JobID)
		}
	}
	slices.SortFunc(list, func(a, b *attemptStarts) int { return cmp.Compare(a.number, b.number) })
	return list
}

// of reports whether a start may be that of processes which say these ids: others of
// the same name may run at the same time.
func of(s *rundir.Run, jobs []string) bool {
	return s.Job == "" || len(jobs) == 0 || slices.Contains(jobs, s.Job)
}

// before reports whether the next attempt is one of the same run.
func (a *attemptStarts) before(next *attemptStarts) bool {
	dead, same, told := false, false, false
	for _, s := range a.starts {
		failed := s.ExitStatus == nil || *s.ExitStatus != 0
		for _, n := range next.starts {
			if s.Job == "" || n.Job == "" {
				continue
			}
			told = true
			dead = dead || failed && (s.State != rundir.Running || s.Seen.Before(n.Started))
			if s == n || s.Continues(n) { // or one command, of which something started a part again
				return true
			}
			same = same || sameCommand(s, n)
		}
	}
	return !told || dead && same && slices.ContainsFunc(next.procs, func(p *Process) bool { return p.Steps.GoesOn })
}

// sameCommand reports whether two starts are of one command, of which the later may have
// more flags, as one to resume. Their values are on no record.
func sameCommand(s, later *rundir.Run) bool {
	return s.Program == later.Program && s.Script == later.Script &&
		!slices.ContainsFunc(s.Flags, func(f string) bool { return !slices.Contains(later.Flags, f) })
}

// part is the part of a job with some of its attempts.
func (j *Job) part(list []*attemptStarts) *Job {
	out := &Job{ID: j.ID, SessionTag: j.SessionTag}
	from, to := int64(math.MaxInt64), int64(0)
	for _, a := range list {
		from, to = min(from, a.start), max(to, a.stop)
	}
	for _, p := range j.Processes {
		if slices.ContainsFunc(list, func(a *attemptStarts) bool { return a.number == p.Attempt }) {
			out.Processes = append(out.Processes, p)
			out.Ranks = max(out.Ranks, p.WorldSize)
			out.ID = cmp.Or(p.JobID, out.ID)
		}
	}
	for _, p := range j.Helpers {
		if p.Start <= to && p.LastSeen >= from {
			out.Helpers = append(out.Helpers, p)
		}
	}
	return out
}

// during are the starts that lie in the time of a job that is a part of those with its
// session tag.
func (j *Job) during(all []*rundir.Run) (out []*rundir.Run) {
	from, to := int64(math.MaxInt64), int64(0)
	var jobs []string
	for _, p := range j.Processes {
		from, to = min(from, p.Start), max(to, p.LastSeen)
		if p.JobID != "" {
			jobs = append(jobs, p.JobID)
		}
	}
	for _, s := range all {
		if of(s, jobs) && !s.Started.After(time.Unix(0, to)) && !s.Seen.Before(time.Unix(0, from)) {
			out = append(out, s)
		}
	}
	return out
}

// atOnce makes one attempt of those that ran at the same time on nodes of one job: where
// a launcher gave no id, the start on each node has a number and an id of its own, and
// what they have in common is the size of the world, of which each has other ranks.
func (j *Job) atOnce() {
	list := j.attemptStarts()
	for i, b := range list {
		for _, a := range list[:i] {
			if a.start < b.stop && b.start < a.stop && a.complements(b) {
				for _, p := range b.procs {
					p.Attempt = a.number
				}
				a.start, a.stop = min(a.start, b.start), max(a.stop, b.stop)
				a.jobs, a.procs = append(a.jobs, b.jobs...), append(a.procs, b.procs...)
				b.procs, b.start, b.stop = nil, math.MaxInt64, 0
				break
			}
		}
	}
}

// complements reports whether two attempts have other ranks and hosts of one world.
func (a *attemptStarts) complements(b *attemptStarts) bool {
	if len(a.jobs) == 0 || len(b.jobs) == 0 || slices.ContainsFunc(a.jobs, func(id string) bool { return slices.Contains(b.jobs, id) }) {
		return false
	}
	ranks, hosts := make(map[int]bool), make(map[string]bool)
	for _, p := range a.procs {
		ranks[p.Rank], hosts[p.Host] = true, true
	}
	world := a.procs[0].WorldSize
	for _, p := range slices.Concat(a.procs, b.procs) {
		if !p.RankKnown || p.WorldSize != world || p.Rank >= world {
			return false
		}
	}
	return !slices.ContainsFunc(b.procs, func(p *Process) bool { return ranks[p.Rank] || hosts[p.Host] })
}
