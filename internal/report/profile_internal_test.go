package report

import (
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/profile"
)

// TestProfileSentence checks the number of steps, which may differ between the ranks, and a profile whose
// events have no duration.
func TestProfileSentence(t *testing.T) {
	of := func(steps ...int) *Profile {
		p := &Profile{Time: 1e9}
		for rank, n := range steps {
			p.Steps += n
			p.Ranks = append(p.Ranks, ProfileRank{Rank: rank, Steps: n})
		}
		return p
	}
	none := of(0)
	none.Operators = []profile.Operator{{Name: "aten::mm"}}
	for _, c := range []struct {
		p    *Profile
		want string
	}{
		{of(2), "(mean of 2 steps on 1 rank)"},
		{of(2, 2), "(mean of 2 steps on each of 2 ranks)"},
		{of(2, 3), "(mean of 5 steps on 2 ranks)"},
		{none, "the profile has no training steps."},
	} {
		if got := c.p.sentence()[0]; !strings.Contains(got, c.want) {
			t.Errorf("sentence() = %q, want %q", got, c.want)
		}
	}
}
