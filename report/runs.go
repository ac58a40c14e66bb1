package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/trainspan/trainspan/analysis/run"
	"github.com/trainspan/trainspan/internal/rundir"
	"github.com/trainspan/trainspan/spans"
)

// Two starts with one session tag, which is the name of what was started, are attempts
// of one run only if a launcher says so, by the id of its job, or if the earlier is
// known to be dead, the command is the same, and the later goes on where it was.
// Otherwise they are two runs, and the time between them is nobody's downtime. What no
// run.json tells of is left as its records say.

// splitRuns divides a job into its runs, by time. Attempts keep their numbers.
func splitRuns(j *run.Job, starts []start, of func(*run.Process) *process) []*run.Job {
	byNumber := make(map[int]*attemptStarts)
	var list []*attemptStarts
	for _, p := range j.Processes {
		a := byNumber[p.Attempt]
		if a == nil {
			a = &attemptStarts{number: p.Attempt, start: math.MaxInt64}
			byNumber[p.Attempt] = a
			list = append(list, a)
		}
		a.start, a.stop = min(a.start, p.Start), max(a.stop, p.LastSeen)
		a.procs = append(a.procs, of(p))
		if p.JobID != "" && !slices.Contains(a.jobs, p.JobID) {
			a.jobs = append(a.jobs, p.JobID)
		}
	}
	if len(list) < 2 || len(starts) == 0 {
		return []*run.Job{j}
	}
	slices.SortFunc(list, func(a, b *attemptStarts) int { return cmp.Compare(a.number, b.number) })
	for i := range starts {
		s := &starts[i]
		for _, a := range list {
			if s.of(a.jobs) && s.Started.UnixNano() <= a.stop && s.Seen.UnixNano() >= a.start {
				a.starts = append(a.starts, s)
			}
		}
	}
	var out []*run.Job
	from := 0
	for i := 1; i <= len(list); i++ {
		if i < len(list) && list[i-1].before(list[i]) {
			continue
		}
		out = append(out, partOfJob(j, list[from:i]))
		from = i
	}
	if len(out) == 1 {
		return []*run.Job{j}
	}
	return out
}

// attemptStarts is what decides whether an attempt goes on with the one before.
type attemptStarts struct {
	number      int
	start, stop int64
	jobs        []string // ids that its processes say
	procs       []*process
	starts      []*start
}

// of reports whether a start may be that of processes which say these ids: others of
// the same name may run at the same time.
func (s *start) of(jobs []string) bool {
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
			if s.Continues(&n.Run) {
				return true
			}
			same = same || s.Program == n.Program && s.Script == n.Script
		}
	}
	return !told || dead && same && slices.ContainsFunc(next.procs, (*process).goesOn)
}

// goesOn reports whether a process loads a checkpoint, or begins above step 0.
func (p *process) goesOn() bool {
	for _, s := range p.details.saves {
		if s.name == spans.CheckpointLoad {
			return true
		}
	}
	return p.steps.First() > 0
}

// partOfJob is the part of a job with some of its attempts.
func partOfJob(j *run.Job, list []*attemptStarts) *run.Job {
	out := &run.Job{ID: j.ID, SessionTag: j.SessionTag}
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
