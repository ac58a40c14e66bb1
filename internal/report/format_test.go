package report_test

import (
	"testing"

	"github.com/trainspan/trainspan/internal/report"
)

// A quantile is the smallest value that is not below the given share of all values.
func TestQuantile(t *testing.T) {
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64(i+1))
	}
	for _, c := range []struct {
		x       []float64
		q, want float64
	}{
		{hundred, 0.5, 50}, {hundred, 0.99, 99}, {hundred, 0.991, 100}, {hundred, 1, 100}, {hundred, 0, 1},
		{hundred[:4], 0.5, 2}, {hundred[:5], 0.5, 3}, {hundred[:1], 0.99, 1}, {hundred[:2], 0.99, 2},
	} {
		if got := report.Quantile(c.x, c.q); got != c.want {
			t.Errorf("the quantile %v of %d values is %v, want %v", c.q, len(c.x), got, c.want)
		}
	}
}
