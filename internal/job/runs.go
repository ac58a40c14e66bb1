package job

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"

	"github.com/trainspan/trainspan/internal/job/rundir"
)

// Two starts with one session tag, which is the name of what was started, are
// attempts of one run only if a launcher shows it, or if the earlier is known
// to be dead, the command is the same, and the later continues its training.
// Otherwise they are two runs, and the time between them is not downtime.
// Records without a run.json are left as they are.

// runs splits a job into its runs, by time. Attempts keep their numbers.
func (j *Job) runs(all []*rundir.Run) []*Job {
	list := j.attemptStarts()
	starts := j.starts(all)
	var rest []*rundir.Run // not recorded by any process
	for _, s := range starts {
		during := func(a *attemptStarts) bool {
			return matchesAny(s, a.jobs) && s.During(a.number, a.start, a.stop)
		}
		if !match(list, s, during) {
			rest = append(rest, s)
		}
	}
	rest = slices.DeleteFunc(rest, func(s *rundir.Run) bool { // a rank that failed before the others had begun
		return match(list, s, func(a *attemptStarts) bool {
			return s.Job != "" && slices.ContainsFunc(a.starts, func(n *rundir.Run) bool { return n.Job == s.Job && n.Attempt == s.Attempt })
		})
	})
	var out []*Job
	from := 0
	for i := 1; i <= len(list); i++ {
		if i < len(list) && (len(starts) == 0 || list[i-1].precedes(list[i])) {
			continue
		}
		out = append(out, j.part(list[from:i]))
		from = i
	}
	if len(out) < 2 {
		out = []*Job{j}
	}
	for _, part := range out {
		numbers, mine := make(map[int]bool), make(map[*rundir.Run]bool)
		for _, p := range part.Processes {
			numbers[p.Attempt] = true
		}
		var attempts []*attemptStarts
		for _, a := range list {
			if !numbers[a.number] {
				continue
			}
			attempts = append(attempts, a)
			for _, s := range a.starts {
				mine[s] = true
			}
		}
		for _, s := range starts {
			if mine[s] {
				part.Starts = append(part.Starts, s)
			}
		}
		part.silent(rest, attempts)
	}
	return out
}

// match adds a start to the attempts that it belongs to, and reports whether
// there are any.
func match(list []*attemptStarts, s *rundir.Run, is func(*attemptStarts) bool) (any bool) {
	for _, a := range list {
		if is(a) {
			a.starts, any = append(a.starts, s), true
		}
	}
	return any
}

// silent adds the starts that ended before anything of them was recorded: those
// that belong to the run according to the launcher, and those between two of
// its attempts with the same command. One that ended well had nothing to
// record.
func (j *Job) silent(rest []*rundir.Run, list []*attemptStarts) {
	known := j.Starts
	for _, s := range rest {
		if s.ExitStatus != nil && *s.ExitStatus == 0 {
			continue
		}
		at, end := s.Started.UnixNano(), s.Seen.UnixNano()
		before := slices.ContainsFunc(list, func(a *attemptStarts) bool {
			return a.stop < at && slices.ContainsFunc(a.starts, func(n *rundir.Run) bool { return sameCommand(n, s) })
		})
		after := slices.ContainsFunc(list, func(a *attemptStarts) bool { return a.start > end })
		beside := slices.ContainsFunc(list, func(a *attemptStarts) bool { return a.start <= end && at <= a.stop })
		if !slices.ContainsFunc(known, s.Continues) && (!before || !after || beside) {
			continue
		}
		j.Starts = append(j.Starts, s)
		i := slices.IndexFunc(j.Silent, func(o Silent) bool { return o.folder == s.Attempt && o.job == s.Job })
		if i < 0 {
			number := s.Attempt + 1
			if slices.ContainsFunc(list, func(a *attemptStarts) bool { return a.number == number }) {
				number = 0
			}
			i, j.Silent = len(j.Silent), append(j.Silent, Silent{Attempt: number, Start: at, Stop: end, folder: s.Attempt, job: s.Job})
		}
		o := &j.Silent[i]
		o.Start, o.Stop, o.Starts = min(o.Start, at), max(o.Stop, end), o.Starts+1
	}
	slices.SortStableFunc(j.Starts, func(a, b *rundir.Run) int { return a.Started.Compare(b.Started) })
}

// name sets a unique Label of each run, with the name of its job's folder, and
// of their processes if there are several.
func name(all []*Job) {
	taken := make(map[string]bool)
	for _, j := range all {
		first := math.MaxInt
		for _, p := range j.Processes {
			first = min(first, p.Attempt)
		}
		if first == math.MaxInt {
			continue
		}
		j.Label = fmt.Sprintf("%s.%d", rundir.Clean(cmp.Or(j.SessionTag, j.ID, "job")), first)
		for n, stem := 2, j.Label; taken[j.Label]; n++ {
			j.Label = fmt.Sprintf("%s-%d", stem, n)
		}
		taken[j.Label] = true
	}
	for _, j := range all {
		for _, p := range slices.Concat(j.Processes, j.Helpers) {
			if p.Run = j.Label; len(taken) < 2 {
				p.Run = ""
			}
		}
	}
}

// splitDuplicates splits a job in which processes with other ids are the same
// rank of the same attempt at the same time: another job has the same name.
func (j *Job) splitDuplicates() []*Job {
	type place struct {
		attempt, rank int // rank -1 means unknown
		host          string
	}
	type group struct {
		of   map[place][]*Process
		list []*Process
	}
	at := func(p *Process) place {
		if p.RankKnown {
			return place{p.recordedAttempt(), p.Rank, ""}
		}
		return place{p.recordedAttempt(), -1, p.Host}
	}
	ids := make(map[string][]*Process)
	var order []string
	for _, p := range j.Processes {
		if ids[p.JobID] == nil {
			order = append(order, p.JobID)
		}
		ids[p.JobID] = append(ids[p.JobID], p)
	}
	var groups []*group
	for _, id := range order {
		i := slices.IndexFunc(groups, func(g *group) bool {
			return id == "" || !slices.ContainsFunc(ids[id], func(p *Process) bool {
				return p.recordedAttempt() > 0 && slices.ContainsFunc(g.of[at(p)], func(o *Process) bool { return o.JobID != "" && o.Start < p.LastSeen && p.Start < o.LastSeen })
			})
		})
		if i < 0 {
			i, groups = len(groups), append(groups, &group{of: make(map[place][]*Process)})
		}
		g := groups[i]
		for _, p := range ids[id] {
			g.list, g.of[at(p)] = append(g.list, p), append(g.of[at(p)], p)
		}
	}
	if len(groups) < 2 {
		return []*Job{j}
	}
	var out []*Job
	for _, g := range groups {
		part := &Job{SessionTag: j.SessionTag}
		for _, p := range g.list {
			part.add(p)
		}
		out = append(out, part)
	}
	return out
}

// starts returns the starts of the job in the order of time.
func (j *Job) starts(all []*rundir.Run) (out []*rundir.Run) {
	for _, s := range all {
		if j.SessionTag == "" || s.Session == j.SessionTag {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b *rundir.Run) int { return a.Started.Compare(b.Started) })
	return out
}

// attemptStarts has what decides whether an attempt continues the previous one.
type attemptStarts struct {
	number      int
	start, stop int64
	jobs        []string // ids in the records of its processes
	procs       []*Process
	starts      []*rundir.Run
}

// attemptStarts returns the attempts of a job by number.
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

// matchesAny reports whether a start may belong to processes with these ids:
// others of the same name may run at the same time.
func matchesAny(s *rundir.Run, jobs []string) bool {
	return s.Job == "" || len(jobs) == 0 || slices.Contains(jobs, s.Job)
}

// precedes reports whether the next attempt belongs to the same run.
func (a *attemptStarts) precedes(next *attemptStarts) bool {
	dead, same, recorded := false, false, false
	for _, s := range a.starts {
		failed := s.ExitStatus == nil || *s.ExitStatus != 0
		for _, n := range next.starts {
			if s.Job == "" || n.Job == "" {
				continue
			}
			recorded = true
			dead = dead || failed && (s.State != rundir.Running || s.Seen.Before(n.Started))
			if s == n || s.Continues(n) { // or one command, part of which was restarted
				return true
			}
			same = same || sameCommand(s, n)
		}
	}
	return !recorded || dead && same && slices.ContainsFunc(next.procs, func(p *Process) bool { return p.Steps.GoesOn })
}

// sameCommand reports whether two starts are of one command; the later may have
// more flags, such as one to resume. The values of flags are not recorded.
func sameCommand(s, later *rundir.Run) bool {
	return s.Program == later.Program && s.Script == later.Script &&
		!slices.ContainsFunc(s.Flags, func(f string) bool { return !slices.Contains(later.Flags, f) })
}

// part returns the part of a job with some of its attempts.
func (j *Job) part(list []*attemptStarts) *Job {
	out := &Job{ID: j.ID, SessionTag: j.SessionTag}
	from, to := int64(math.MaxInt64), int64(0)
	attempts := make(map[int]bool, len(list))
	for _, a := range list {
		from, to, attempts[a.number] = min(from, a.start), max(to, a.stop), true
	}
	for _, p := range j.Processes {
		if attempts[p.Attempt] {
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

// atOnce merges attempts that ran at the same time on nodes of one job: if a
// launcher set no id, the start on each node has a separate number and id, and
// they share only the world size, and have different ranks.
func (j *Job) atOnce() {
	var kept []*nodes
	var reach []int64 // the latest stop of kept up to each
	for _, a := range j.attemptStarts() {
		b := nodesOf(a)
		if b == nil {
			continue
		}
		first := sort.Search(len(kept), func(i int) bool { return reach[i] > b.start })
		i := slices.IndexFunc(kept[first:], func(a *nodes) bool { return a.start < b.stop && b.start < a.stop && !a.meets(b) })
		if i < 0 {
			kept, reach = append(kept, b), append(reach, b.stop)
			if n := len(reach) - 1; n > 0 {
				reach[n] = max(reach[n], reach[n-1])
			}
			continue
		}
		i += first
		kept[i].add(b)
		for ; i < len(reach) && reach[i] < b.stop; i++ {
			reach[i] = b.stop
		}
	}
}

// nodes are concurrent attempts that each have some of the ranks of a world.
type nodes struct {
	*attemptStarts
	world int
	ranks map[int]bool
	of    map[string]bool // their hosts
	ids   map[string]bool
}

// nodesOf returns nil for an attempt whose ranks, world or job are not
// recorded.
func nodesOf(a *attemptStarts) *nodes {
	if len(a.jobs) == 0 {
		return nil
	}
	n := &nodes{attemptStarts: a, world: a.procs[0].WorldSize, ranks: make(map[int]bool), of: make(map[string]bool), ids: make(map[string]bool)}
	for _, p := range a.procs {
		if !p.RankKnown || p.WorldSize != n.world || p.Rank >= n.world {
			return nil
		}
		n.ranks[p.Rank], n.of[p.Host] = true, true
	}
	for _, id := range a.jobs {
		n.ids[id] = true
	}
	return n
}

// meets reports whether b, which may be another of the nodes, belongs to
// another world, or shares a rank, a host or an id with them.
func (n *nodes) meets(b *nodes) bool {
	return n.world != b.world || slices.ContainsFunc(b.jobs, func(id string) bool { return n.ids[id] }) ||
		slices.ContainsFunc(b.procs, func(p *Process) bool { return n.ranks[p.Rank] || n.of[p.Host] })
}

// add adds b to the nodes.
func (n *nodes) add(b *nodes) {
	for _, p := range b.procs {
		p.Attempt = n.number
	}
	n.start, n.stop = min(n.start, b.start), max(n.stop, b.stop)
	maps.Copy(n.ranks, b.ranks)
	maps.Copy(n.of, b.of)
	maps.Copy(n.ids, b.ids)
}
