package compare

import "testing"

// TestIntervalInASentence checks that the interval that a sentence quotes excludes zero if the mean has
// decided.
func TestIntervalInASentence(t *testing.T) {
	for _, c := range []struct {
		kind         Kind
		median, mean Interval
		want         bool
	}{
		{Slower, Interval{0.44, -0.34, 2.13}, Interval{0.83, 0.15, 1.92}, true},
		{Slower, Interval{0.10, 0.05, 0.15}, Interval{0.11, 0.06, 0.16}, false},
		{Slower, Interval{0.01, 0.005, 0.02}, Interval{0.3, 0.2, 0.4}, true},
		{Faster, Interval{-0.3, -0.5, 0.1}, Interval{-0.4, -0.5, -0.2}, true},
		{Faster, Interval{-0.3, -0.4, -0.2}, Interval{-0.4, -0.5, -0.2}, false},
		{NoDifference, Interval{}, Interval{0.3, 0.2, 0.4}, false},
	} {
		if got := (&Result{Kind: c.kind, Median: c.median, Mean: c.mean}).byMean(); got != c.want {
			t.Errorf("byMean() of %s, median %v, mean %v = %v, want %v", c.kind, c.median, c.mean, got, c.want)
		}
	}
}
