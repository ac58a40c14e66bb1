package spanstats_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/analyze/spanstats"
)

// BenchmarkAdd measures one event, in the order in which programs write, in
// that of sorted traces, and in random order.
func BenchmarkAdd(b *testing.B) {
	ordered := randomTrace(1)
	for i := range uint64(200) {
		for _, ev := range randomTrace(i) {
			ev.TS += int64(i+1) * 3000
			ordered = append(ordered, ev)
		}
	}
	sorted := slices.Clone(ordered)
	slices.SortStableFunc(sorted, func(x, y dftracer.Event) int {
		if x.TS != y.TS {
			return int(x.TS - y.TS)
		}
		return int(y.Dur - x.Dur)
	})
	shuffled := slices.Clone(ordered)
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	for name, events := range map[string][]dftracer.Event{"ends": ordered, "starts": sorted, "shuffled": shuffled} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			agg := spanstats.New(nil)
			i := 0
			for b.Loop() {
				agg.Add(&events[i])
				if i++; i == len(events) {
					i, agg = 0, spanstats.New(nil)
				}
			}
		})
	}
}
