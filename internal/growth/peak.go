package growth

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
)

// Peak is the most memory that the heap and the whole process had when a benchmark
// looked, in bytes. The zero Peak has not looked.
type Peak struct{ heap, resident float64 }

// Look notes how much memory there is now.
func (p *Peak) Look(b *testing.B) {
	b.Helper()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	p.heap = max(p.heap, float64(m.HeapInuse))
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return // the system does not say
	}
	_, size, _ := strings.Cut(string(text), "VmRSS:")
	var kB float64
	if _, err := fmt.Sscan(size, &kB); err != nil {
		b.Error(err)
	}
	p.resident = max(p.resident, kB*1024)
}

// Heap is what the heap had.
func (p *Peak) Heap() float64 { return p.heap }

// Report makes metrics of it.
func (p *Peak) Report(b *testing.B) {
	b.ReportMetric(p.heap/1e6, "heap-MB")
	b.ReportMetric(p.resident/1e6, "rss-MB")
}
