package straggler_test

import (
	"fmt"

	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// steps yields the steps of a job with four ranks. From step 30 on rank 2 waits 40 ms longer for data. Times
// are nanoseconds of each rank's own clock.
func steps(yield func(*straggler.Step)) {
	const ms = int64(1e6)
	release := int64(0)
	for step := range int64(60) {
		last := int64(0)
		arrive := make([]int64, 4)
		data := make([]int64, 4)
		for r := range arrive {
			data[r] = 5 * ms
			if r == 2 && step >= 30 {
				data[r] += 40 * ms
			}
			arrive[r] = release + data[r] + 100*ms + int64(r)*ms/10
			last = max(last, arrive[r])
		}
		for r := range arrive {
			yield(&straggler.Step{Rank: r, Number: step, Spans: []straggler.Span{
				{Phase: straggler.Input, Start: release, End: release + data[r]},
				{Phase: straggler.Forward, Start: release + data[r], End: arrive[r]},
				{Phase: straggler.Communication, Start: arrive[r], End: last + 10*ms},
			}})
		}
		release = last + 10*ms
	}
}

func Example() {
	st := straggler.New(&straggler.Options{WorldSize: 4})
	st.SetRank(2, straggler.Rank{Host: "node-b"})
	late := straggler.New(nil) // filled by another reader
	steps(func(s *straggler.Step) {
		if s.Number < 30 {
			st.Add(s)
		} else {
			late.Add(s)
		}
	})
	st.Merge(late)
	v := st.Verdict()
	fmt.Println(v.Kind, v.Ranks, v.Hosts, v.Cause, v.FromStep)
	// Output: slow_ranks [2] [node-b] input 30
}
