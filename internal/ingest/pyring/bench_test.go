package pyring_test

import (
	"testing"

	"github.com/trainspan/trainspan/internal/testkit/ringtest"
)

// BenchmarkImport reads ring buffers of steps with phases inside, and of
// interleaved tasks.
func BenchmarkImport(b *testing.B) {
	const regions = 8
	for name, fill := range map[string]func(m *ringtest.Image, slot int){
		"steps": func(m *ringtest.Image, slot int) {
			at, phase := slot/8*8, slot%8
			if phase == 7 {
				m.Put(slot, ringtest.Slot{Start: ringtest.At(10 * at), End: ringtest.At(10*at + 79), Depth: 1, Word: 1})
				return
			}
			m.Put(slot, ringtest.Slot{Start: ringtest.At(10*(at+phase) + 1), End: ringtest.At(10*(at+phase) + 9), Depth: 2, Word: 1})
		},
		"tasks": func(m *ringtest.Image, slot int) {
			m.Put(slot, ringtest.Slot{Start: ringtest.At(slot), End: ringtest.At(slot + 5), Depth: 1, Word: 1})
		},
	} {
		b.Run(name, func(b *testing.B) {
			m := ringtest.New(b, regions)
			for i := range regions * ringtest.Slots {
				fill(m, i)
			}
			path := m.Write()
			b.ReportAllocs()
			for b.Loop() {
				importShape(b, path)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(regions*ringtest.Slots), "ns/span")
		})
	}
}
