package report

import (
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/hang"
	"github.com/trainspan/trainspan/internal/job"
)

// A stack belongs to the rank in the name of its file or, without one, to the only rank that has
// the process id: in containers all ranks may have the same.
func TestRankOfStack(t *testing.T) {
	at := func(pids ...int64) (out []*job.Process) {
		for rank, pid := range pids {
			out = append(out, &job.Process{Rank: rank, PID: pid})
		}
		return out
	}
	one := []hang.Stack{{PID: 7}}
	for name, c := range map[string]struct {
		file  hang.File
		procs []*job.Process
		want  []int // of each stack
	}{
		"a container for each rank":    {hang.File{Rank: 2, PIDs: []int64{2, 7}, Stacks: one}, at(7, 7, 7, 7), []int{2}},
		"without a rank in the name":   {hang.File{Rank: -1, Stacks: one}, at(7, 7, 7, 7), []int{-1}},
		"by the process id":            {hang.File{Rank: -1, Stacks: one}, at(5, 6, 7), []int{2}},
		"by the number in the name":    {hang.File{Rank: -1, PIDs: []int64{6}, Stacks: []hang.Stack{{}}}, at(5, 6, 7), []int{1}},
		"the number of several ranks":  {hang.File{Rank: -1, PIDs: []int64{6}, Stacks: []hang.Stack{{}}}, at(6, 6, 7), []int{-1}},
		"two attempts of one rank":     {hang.File{Rank: -1, Stacks: one}, []*job.Process{{Rank: 3, PID: 7}, {Rank: 3, PID: 7}}, []int{3}},
		"several processes, by the id": {hang.File{Rank: 0, Stacks: []hang.Stack{{PID: 6}, {PID: 5}, {PID: 9}}}, at(5, 6, 7), []int{1, 0, -1}},
	} {
		for i, want := range c.want {
			got := -1
			for rank := range 4 {
				if s, _ := stackOf(rank, c.procs, []*hang.File{&c.file}); s == &c.file.Stacks[i] {
					got = rank
				}
			}
			if got != want {
				t.Errorf("%s: stack %d is of rank %d, want %d", name, i, got, want)
			}
		}
	}
}
