package growth_test

import (
	"testing"

	"github.com/trainspan/trainspan/internal/testkit/growth"
)

var sink []byte

// failures is a test that records whether it failed.
type failures struct {
	testing.TB
	n int
}

func (*failures) Helper()                 {}
func (f *failures) Errorf(string, ...any) { f.n++ }

func TestAllocated(t *testing.T) {
	growth.Allocated(t, 1000, func(n int) { sink = make([]byte, n) })
	var f failures
	growth.Allocated(&f, 100, func(n int) { sink = make([]byte, n*n) })
	if f.n != 1 {
		t.Error("quadratic growth passed, want a failure")
	}
}

func TestGrowthAboveTheLimit(t *testing.T) {
	growth.Work(t, 1000, 10, func() { sink = make([]byte, 9000) })
	var f failures
	growth.Work(&f, 1000, 10, func() { sink = make([]byte, 2<<20) })
	if f.n != 1 {
		t.Error("growth above the limit passed, want a failure")
	}
}
