package straggler_test

import (
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// pausesAlone returns 60 steps of 8 ranks in which only rank 0 pauses, three times, in a phase.
func pausesAlone(phase straggler.Phase) *straggler.State {
	st := straggler.New(nil)
	now := int64(1e15)
	for s := range int64(60) {
		const ms = int64(1e6)
		end := now + 100*ms
		if s%20 == 19 {
			end += 400 * ms
		}
		for r := range 8 {
			at := now + 90*ms + int64(r*7+int(s)*5)%11*ms/10
			spans := []straggler.Span{{Phase: straggler.Forward, Start: now, End: at}}
			if r == 0 && s%20 == 19 {
				spans = append(spans, straggler.Span{Phase: phase, Start: at, End: at + 400*ms})
				at += 400 * ms
			}
			spans = append(spans, straggler.Span{Phase: straggler.Communication, Start: at, End: end})
			st.Add(&straggler.Step{Rank: r, Number: s, Start: now, End: end, Spans: spans})
		}
		now = end
	}
	return st
}

// TestRankThatSavesAlone: three saves by the same rank are enough to name it if no other rank ever saves.
// Three pauses of one rank are not, because they may be chance.
func TestRankThatSavesAlone(t *testing.T) {
	for _, tt := range []struct {
		phase straggler.Phase
		want  []int
	}{
		{straggler.Checkpoint, []int{0}},
		{straggler.Forward, nil},
	} {
		v := pausesAlone(tt.phase).Verdict()
		if got := namedIn(v); !slices.Equal(got, tt.want) {
			t.Errorf("%v: named %v, want %v: %s", tt.phase, got, tt.want, v.Sentence)
		}
	}
}
