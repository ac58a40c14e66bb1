package fromrun

import "github.com/trainspan/trainspan/internal/run"

// ClockTable says, by attempt and rank, by how many nanoseconds a clock is to be set
// forward. A rank that is not in it keeps its clock, and nil sets none.
type ClockTable map[int]map[int]int64

// Clocks finds the attempts whose clocks differ by more than those of hosts that are
// kept in time: see [replay.State.Clocks]. It is nil where none do.
func Clocks(attempts []Attempt) ClockTable {
	var out ClockTable
	for i := range attempts {
		if c := attempts[i].State.Clocks(); c != nil {
			if out == nil {
				out = make(ClockTable)
			}
			out[attempts[i].Number] = c
		}
	}
	return out
}

// Of is by how much the clock of a process is to be set forward.
func (t ClockTable) Of(p *run.Process) int64 { return t[p.Attempt][p.Rank] }
