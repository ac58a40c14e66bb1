package fromrun

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/trainspan/trainspan/internal/replay"
	"github.com/trainspan/trainspan/internal/run"
)

// Attempt is the steps of one attempt of a job.
type Attempt struct {
	Number int
	State  *replay.State
	// Late counts spans of steps that had been handed on when they came: only
	// in a file of very many spans that is far from the order of time.
	Late int64
	// Device says that steps are what the devices of ranks did, not their hosts.
	Device bool
}

// firstHeartbeat is when the first heartbeat of a process must be there, in
// nanoseconds: it is written after ten seconds, and then on disk within a few.
// That a shorter attempt has none says nothing about who writes its files.
const firstHeartbeat = int64(15 * time.Second)

// Attempts returns the steps of a job by attempt; of gives those of each process,
// nil where there are none. It can be asked for again, also where the processes
// have other numbers then.
func Attempts(j *run.Job, of func(*run.Process) *Steps) []Attempt {
	byNumber, ends := make(map[int]*Attempt), interrupts(j)
	for _, p := range j.Processes {
		s := of(p)
		if s == nil {
			continue
		}
		a := byNumber[p.Attempt]
		if a == nil {
			a = &Attempt{Number: p.Attempt, State: replay.New(&replay.Options{WorldSize: j.Ranks})}
			byNumber[p.Attempt] = a
		}
		info := replay.Rank{Host: p.Host, Ended: p.End != run.NoEnd && !failed(p), Cut: p.Cut}
		if p.Heartbeats || p.LastSeen-p.Start < firstHeartbeat {
			info.LastSeen = p.LastSeen
		}
		if at, ok := ends[place{p.Attempt, p.Host}]; ok {
			info.LastSeen = min(info.LastSeen, at)
		}
		a.State.AddRank(p.Rank, info, s.state)
		a.Late += s.late
		a.Device = a.Device || s.devices
	}
	var out []Attempt
	for _, a := range slices.SortedFunc(maps.Values(byNumber), func(a, b *Attempt) int { return cmp.Compare(a.Number, b.Number) }) {
		out = append(out, *a)
	}
	return out
}
