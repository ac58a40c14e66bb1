package run

import "github.com/trainspan/trainspan/internal/rundir"

// Latest returns until when a process of the job may have lived. It is its end if it ended
// in good order, and LastSeen if its records are complete. A process that was
// killed takes with it what it had not written, so that it may have lived for its flush
// interval more, but not beyond the end of its command. Where trainspan run waited for
// the process itself, the end is known: exact is set.
func (j *Job) Latest(p *Process) (at int64, exact bool) {
	if p.End != NoEnd {
		return p.End, true // LastSeen may be later: a save in the background that ended after it
	}
	at = p.LastSeen + p.Flush
	for _, s := range j.Starts {
		if s.State != rundir.Ended || s.EndedBy == rundir.ByUnknown || s.Ended == nil || s.Host != p.Host || s.Job != p.JobID {
			continue
		}
		end := s.Ended.UnixNano()
		if s.Started.UnixNano() > p.LastSeen || end < p.LastSeen {
			continue
		}
		if s.CommandPID != 0 && int64(s.CommandPID) == p.PID {
			return end, true
		}
		at = min(at, end)
	}
	return at, at == p.LastSeen
}
