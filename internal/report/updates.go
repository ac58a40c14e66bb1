package report

import (
	"fmt"

	"github.com/trainspan/trainspan/internal/analyze/straggler/fromjob"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// updates sets Updates and MicroBatches from the attempts.
func (s *Steps) updates(attempts []fromjob.Attempt) {
	same := true
	for i := range attempts {
		u := &attempts[i].Updates
		if u.Count == 0 {
			continue
		}
		m := u.MicroBatches()
		same = same && (s.Updates == 0 || m == s.MicroBatches)
		s.Updates, s.MicroBatches = s.Updates+u.Count, m
	}
	if !same || s.MicroBatches == 1 {
		s.MicroBatches = 0
	}
}

// updateSentence describes how steps relate to updates if gradients are accumulated: a step is one of several
// micro-batches of an update, or an update of several. It is empty if each step is an update of one batch.
func (r *Report) updateSentence() string {
	st := &r.Steps
	batches := st.Updates * st.MicroBatches
	switch {
	case st.Updates == 0:
		return ""
	case st.MicroBatches > 1 && st.Updates*2 <= st.Count && 10*st.Count >= 9*batches && 10*batches >= 9*st.Count: // the last update of an epoch may have fewer
		return fmt.Sprintf("%s of %d micro-batches each; a step is one micro-batch", display.Count(st.Updates), st.MicroBatches)
	case st.MicroBatches > 1 && 10*st.Updates >= 9*st.Count:
		return fmt.Sprintf("a step is an update of %d micro-batches", st.MicroBatches)
	case st.Updates*2 <= st.Count:
		return fmt.Sprintf("%s in %s steps: not each step is an update", display.Count(st.Updates), display.Count(st.Count))
	}
	return ""
}
