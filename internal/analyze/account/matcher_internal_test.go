package account

import (
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/platform/extsort"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
	"github.com/trainspan/trainspan/internal/tracefile/vocab"
	"github.com/trainspan/trainspan/spans"
)

// pairs returns the ledger of a job whose ranks meet in pairs, so many times in each step. The second rank
// of a pair comes late.
func pairs(t testing.TB, ranks, steps, meetings int, spill *extsort.Blocks) *Ledger {
	t.Helper()
	l := &Ledger{}
	l.Expect(ranks)
	const second = 1e9
	for r := range ranks {
		end := int64(steps+1) * second
		b := NewBuilder(Process{Rank: r, Attempt: 1, Start: second, End: end, LastSeen: end})
		b.spill = spill
		id := uint64(1)
		for s := range int64(steps) {
			at := (s + 1) * second
			step := id
			b.Span(&job.Span{ID: step, Name: spans.TrainingIteration, Class: vocab.ClassStep, StepRule: vocab.StepIteration, Start: at, End: at + second, Step: s, First: job.Unknown})
			for k := range int64(meetings) {
				took := int64(10+s%7) * 1e6
				if r%2 == 1 {
					took = 1e6
				}
				id++
				b.Span(&job.Span{
					ID: id, Parent: step, Name: "all_reduce", Kind: "all_reduce", Class: vocab.ClassCollective, Start: at + k*20e6, End: at + k*20e6 + took,
					Step: job.Unknown, First: job.Unknown, Group: fmt.Sprint("pair", r/2), GroupSize: 2,
				})
			}
			id++
		}
		if err := l.Add(b); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// withMeetings sets how many meetings are matched together until the test ends.
func withMeetings(t *testing.T, n int) {
	t.Helper()
	before := mostMeetings
	mostMeetings = n
	t.Cleanup(func() { mostMeetings = before })
}

// TestMatched checks that ranks with the same meeting share it, whether or not they have the same meetings in
// the same order.
func TestMatched(t *testing.T) {
	for name, ranks := range map[string][][]int64{
		"same":             {{1, 2, 3}, {1, 2, 3}, {1, 2, 3}},
		"one more":         {{1, 3}, {1, 2, 3}, {1, 2, 3}},
		"one less":         {{1, 2, 3}, {1, 3}, {2}, {1, 2, 3}},
		"none in common":   {{5, 6}, {1, 2, 3}, {7, 8, 4}},
		"not in order":     {{3, 1, 2}, {1, 2, 3}, {2, 3, 1}},
		"none, then some":  {{}, {2, 4}, {1, 2, 3, 4, 5}},
		"all, then others": {{1, 2, 3}, {9, 1, 8, 2, 7, 3}, {1, 2, 3, 7, 8, 9}},
	} {
		var g matched
		of := make(map[int64]*int)
		for _, anchors := range ranks {
			g.at = 0
			for _, anchor := range anchors {
				if of[anchor] == nil {
					of[anchor] = new(int)
				}
				*of[anchor]++
				g.find(meeting{anchor: anchor}).Members++
			}
		}
		if len(g.list) != len(of) {
			t.Errorf("%s: %d meetings, want %d", name, len(g.list), len(of))
		}
		for _, e := range g.list {
			if e.Members != *of[e.key.anchor] {
				t.Errorf("%s: meeting %d has %d ranks, want %d", name, e.key.anchor, e.Members, *of[e.key.anchor])
			}
		}
	}
}

// TestManyGroups checks that the memory for the meetings of many small groups is bounded, and that the waits
// are right.
func TestManyGroups(t *testing.T) {
	const ranks, steps, meetings, most = 64, 300, 4, 1 << 10
	withMeetings(t, most)
	l := pairs(t, ranks, steps, meetings, nil)
	var all []*attempt
	for _, id := range l.rankIDs() {
		all = append(all, l.ranks[id].attempts...)
	}
	m := newMatcher(all, ranks, nil)
	held, calls := 0, 0
	m.match(&insideLayout, func(int, int64, int, int64) { calls++ }, func(int) {
		n := 0
		for g := range m.of {
			n += len(m.of[g].list)
		}
		held = max(held, n)
	})
	if want := ranks / 2 * steps * meetings; calls != want {
		t.Errorf("%d waits, want %d", calls, want)
	}
	if held > most {
		t.Errorf("%d meetings are held, want at most %d", held, most)
	}
	rep := l.Report(Query{})
	want := int64(0)
	for s := range int64(steps) {
		want += ranks / 2 * meetings * (10 + s%7 - 1) * 1e6
	}
	if got := rep.ProductiveParts[WaitInStep]; got != want || rep.Unmatched != 0 {
		t.Errorf("waits of %d ns and %d unmatched, want %d and 0", got, rep.Unmatched, want)
	}
}

// TestMeetingsInRounds checks that reports do not depend on how many meetings are matched together.
func TestMeetingsInRounds(t *testing.T) {
	draws := 3
	if testing.Short() {
		draws = 1
	}
	unequal := 0
	for i, family := range simjob.Families() {
		for k := range draws {
			j := simjob.Draw(uint64(3000+draws*i+k), family)
			var mu sync.Mutex
			builders := make(map[*job.Process]*Builder)
			spill := extsort.NewBlocks(1<<10, t.TempDir())
			of, err := j.Feed(func(p *job.Process) job.Sink {
				s, b := OpenSink(p, spill)
				mu.Lock()
				defer mu.Unlock()
				builders[p] = b
				return s
			})
			if err != nil {
				t.Fatal(err)
			}
			report := func() *Report {
				return LedgerOf(of, func(p *job.Process) *Builder { return builders[p] }, nil).Report(Query{})
			}
			want := report()
			for _, most := range [...]int{1, 50} {
				withMeetings(t, most)
				if got := report(); !reflect.DeepEqual(got, want) {
					t.Errorf("%s, %d meetings together: parts %v, unmatched %d, want %v, %d", j.Name, most, got.ProductiveParts, got.Unmatched, want.ProductiveParts, want.Unmatched)
				}
			}
			mostMeetings = 1 << 17
			if err := spill.Err(); err != nil {
				t.Error(err)
			}
			if want.ProductiveParts[WaitInStep] > 0 {
				unequal++
			}
		}
	}
	if unequal < 3 {
		t.Errorf("%d jobs have waits, want 3", unequal)
	}
}

// TestRepeatedStepInRounds checks that meetings of a step that all ranks repeat stay unmatched if only some
// meetings are matched together.
func TestRepeatedStepInRounds(t *testing.T) {
	withMeetings(t, 2)
	l := pairs(t, 4, 20, 3, nil)
	for _, id := range l.rankIDs() {
		a := l.ranks[id].attempts[0]
		to := rowPacker{}
		for cols, n := range a.packed.inside.blocks(insideColumns) {
			for i := range n {
				anchor := cols[1][i]
				if anchor >= 10 {
					anchor -= 10 // the second ten steps repeat the first ones
				}
				to.add(cols[0][i], anchor, cols[2][i], cols[3][i], cols[4][i])
			}
		}
		a.packed.inside = to.done()
	}
	rep := l.Report(Query{})
	if got := rep.ProductiveParts[WaitInStep]; got != 0 || rep.Unmatched == 0 {
		t.Errorf("waits of %d ns and %d unmatched, want 0 and more than 0", got, rep.Unmatched)
	}
}

// BenchmarkManyGroups measures a report of many ranks in small groups.
func BenchmarkManyGroups(b *testing.B) {
	for _, ranks := range [...]int{64, 256} {
		b.Run(fmt.Sprint(ranks), func(b *testing.B) {
			l := pairs(b, ranks, 1000, 8, extsort.NewBlocks(64<<20, ""))
			b.ReportAllocs()
			for b.Loop() {
				l.table = nil
				l.Report(Query{})
			}
		})
	}
}
