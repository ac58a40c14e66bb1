package account

import "github.com/trainspan/trainspan/internal/platform/extsort"

// SetRowLimit makes a builder sort in a temporary file beyond n spans.
func SetRowLimit(b *Builder, n int) { b.rows.limit = n }

// SetSpill makes a builder pack its timeline into spill.
func SetSpill(b *Builder, spill *extsort.Blocks) { b.spill = spill }

// Numbered sets the rank and attempt of a builder that was read, and returns it.
func Numbered(b *Builder, rank, attempt int) *Builder {
	b.done.Rank, b.done.Attempt = rank, attempt
	return b
}

// PartNames returns the parts.
func PartNames() []Part { return []Part{Compute, Communication, WaitInStep, OtherCode, StepUnsplit} }

// RankStep identifies a step of a rank by the number that ranks have in common.
type RankStep struct {
	Rank int
	Step int64
}

// WaitsOf returns how long ranks waited for others in one attempt, from the end of one step
// to the end of the next, inside and outside of steps.
func WaitsOf(l *Ledger, number int) map[RankStep]int64 {
	out := make(map[RankStep]int64)
	t := l.meet()
	for _, id := range l.having[number] {
		for _, a := range l.ranks[id].attempts {
			if a.Attempt != number {
				continue
			}
			its, _ := a.packed.open(nil)
			t.inside(a, func(i, rank int, took int64) {
				if rank != unmatchedRank {
					out[RankStep{id, a.anchor(its, i)}] += took
				}
			})
			t.messages(a, func(i int, wait int64, rank int) {
				if rank != unmatchedRank {
					out[RankStep{id, a.anchor(its, i)}] += wait
				}
			})
			i := 0
			for _, w := range t.answers[a].waits {
				for i < len(its) && its[i].end <= w.from {
					i++
				}
				if i < len(its) {
					out[RankStep{id, a.anchor(its, i)}] += w.to - w.from
				}
			}
		}
	}
	return out
}
