package report

import "testing"

func TestUpdateSentence(t *testing.T) {
	for _, c := range []struct {
		steps, updates, each int
		want                 string
	}{
		{60, 60, 0, ""},
		{60, 0, 0, ""},
		{60, 58, 0, ""}, // the gradient scaler skipped two updates
		{60, 15, 4, "15 of 4 micro-batches each; a step is one micro-batch"},
		{59, 15, 4, "15 of 4 micro-batches each; a step is one micro-batch"},
		{60, 60, 3, "a step is an update of 3 micro-batches"},
		{60, 15, 0, "15 in 60 steps: not each step is an update"},
		{60, 15, 2, "15 in 60 steps: not each step is an update"},
	} {
		r := &Report{Steps: Steps{Count: c.steps, Updates: c.updates, MicroBatches: c.each}}
		if got := r.updateSentence(); got != c.want {
			t.Errorf("%d steps, %d updates of %d: got %q, want %q", c.steps, c.updates, c.each, got, c.want)
		}
	}
}
