package straggler_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/internal/analyze/finding"
	"github.com/trainspan/trainspan/internal/analyze/straggler"
)

// numberedGroups returns the verdict on four ranks in groups with numbers for names, as PyTorch has them: pairs 1 and
// 2 share a layer, pairs 3 and 4 share gradients, group 5 has all ranks, and each rank has a group of its own, 6 to 9.
// transfer returns the milliseconds of a collective by group.
func numberedGroups(transfer func(group string) float64) *straggler.Verdict {
	groups := []struct {
		name  string
		ranks []int
	}{{"1", []int{0, 1}}, {"2", []int{2, 3}}, {"3", []int{0, 2}}, {"4", []int{1, 3}}, {"5", []int{0, 1, 2, 3}}, {"6", []int{0}}, {"7", []int{1}}, {"8", []int{2}}, {"9", []int{3}}}
	rng := rand.New(rand.NewPCG(4, 2))
	st := straggler.New(&straggler.Options{WorldSize: 4})
	now := make([]float64, 4)
	at := func(ms float64) int64 { return 1e15 + int64(ms*1e6) }
	for i := range 80 {
		steps := make([]straggler.Step, 4)
		for r := range steps {
			steps[r] = straggler.Step{Rank: r, Number: int64(i)}
			d := 100 + rng.NormFloat64()
			steps[r].Spans = append(steps[r].Spans, straggler.Span{Phase: straggler.Forward, Start: at(now[r]), End: at(now[r] + d)})
			now[r] += d
		}
		for _, g := range groups {
			end := 0.0
			for _, r := range g.ranks {
				end = max(end, now[r])
			}
			end += transfer(g.name)
			for _, r := range g.ranks {
				steps[r].Spans = append(steps[r].Spans, straggler.Span{Phase: straggler.Communication, Group: g.name, GroupSize: len(g.ranks), Start: at(now[r]), End: at(end)})
				now[r] = end
			}
		}
		for r := range steps {
			st.Add(&steps[r])
		}
	}
	return st.Verdict()
}

// TestSimilarGroups checks that transfers are only compared between groups that do the same: groups of one size that
// share no rank. A group of all ranks and groups of single ranks have nothing to compare with.
func TestSimilarGroups(t *testing.T) {
	usual := map[string]float64{"1": 4, "2": 4, "3": 15, "4": 15, "5": 40, "6": 1, "7": 1, "8": 1, "9": 30}
	if v := numberedGroups(func(g string) float64 { return usual[g] }); v.Kind == finding.SlowTransfer {
		t.Errorf("groups of other purposes: got %s %v: %s; want no finding about transfers", v.Kind, v.Ranks, v.Sentence)
	}
	usual["9"], usual["4"] = 1, 35
	if v := numberedGroups(func(g string) float64 { return usual[g] }); v.Kind != finding.SlowTransfer || !slices.Equal(v.Ranks, []int{1, 3}) {
		t.Errorf("group 4 is slow: got %s %v: %s; want %s [1 3]", v.Kind, v.Ranks, v.Sentence, finding.SlowTransfer)
	}
}
