// Package growth checks how cost grows with the input: tests limit the
// allocations, and benchmarks print the cost of 16 times the input.
package growth

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

// Most is the highest allowed ratio of the cost of 16 times the input: 16 and a
// logarithm.
const Most = 24

// Allocated fails the test if f(16 n) allocates more than Most times the bytes
// of f(n). Allocations that do not depend on the input (tables, buffers) make
// the ratio smaller, so n must be large.
func Allocated(t testing.TB, n int, f func(n int)) {
	t.Helper()
	f(n) // allocations that are made once and kept
	small, large := Bytes(func() { f(n) }), Bytes(func() { f(16 * n) })
	if large > Most*max(small, 1) {
		t.Errorf("%d: %d bytes allocated, %d: %d, %.1f times as many", n, small, 16*n, large, float64(large)/float64(small))
	}
}

// Work fails the test if f, with an input of size bytes, allocates more than
// perByte bytes for each byte of it and 1 MiB in addition. Fuzz targets check
// parsers with it.
func Work(t testing.TB, size, perByte int, f func()) {
	t.Helper()
	if got, most := Bytes(f), uint64(size)*uint64(perByte)+1<<20; got > most {
		t.Errorf("an input of %d bytes made it allocate %d, more than %d", size, got, most)
	}
}

// Bytes returns the bytes that f allocates on all goroutines, including freed
// ones.
func Bytes(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Bench times f(n) and f(16 n) alternately and reports the minimum of each, and
// their ratio as "x16". tools/ci/growth fails if that exceeds Most.
func Bench(b *testing.B, n int, f func(n int)) {
	b.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // the benchmark measures f, not garbage collection
	f(n)
	least := func(best time.Duration, n int) time.Duration {
		runtime.GC()
		start := cpu()
		f(n)
		if d := cpu() - start; best == 0 || d < best {
			return max(d, 1)
		}
		return best
	}
	var small, large time.Duration
	for b.Loop() {
		for range 3 {
			small, large = least(small, n), least(large, 16*n)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(small)/1e6, "ms/n")
	b.ReportMetric(float64(large)/1e6, "ms/16n")
	b.ReportMetric(float64(large)/float64(small), "x16")
}

// Peak is the highest memory use of the heap and of the process that a
// benchmark has seen, in bytes. The zero Peak has no value yet.
type Peak struct{ heap, resident float64 }

// Look measures the memory use.
func (p *Peak) Look(b *testing.B) {
	b.Helper()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	p.heap = max(p.heap, float64(m.HeapInuse))
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return // the system does not report it
	}
	_, size, _ := strings.Cut(string(text), "VmRSS:")
	var kB float64
	if _, err := fmt.Sscan(size, &kB); err != nil {
		b.Error(err)
	}
	p.resident = max(p.resident, kB*1024)
}

// Heap returns the highest memory use of the heap.
func (p *Peak) Heap() float64 { return p.heap }

// Report reports the values as metrics of the benchmark.
func (p *Peak) Report(b *testing.B) {
	b.ReportMetric(p.heap/1e6, "heap-MB")
	b.ReportMetric(p.resident/1e6, "rss-MB")
}
