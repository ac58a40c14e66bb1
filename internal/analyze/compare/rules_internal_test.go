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
		{Slower, Interval{0.015, 0.013, 0.017}, Interval{0.04, -0.09, 0.19}, false},
		{Faster, Interval{-0.015, -0.017, -0.013}, Interval{-0.04, -0.19, 0.09}, false},
		{NoDifference, Interval{}, Interval{0.3, 0.2, 0.4}, false},
	} {
		if got := (&Result{Kind: c.kind, Median: c.median, Mean: c.mean}).byMean(); got != c.want {
			t.Errorf("byMean() of %s, median %v, mean %v = %v, want %v", c.kind, c.median, c.mean, got, c.want)
		}
	}
}

// TestFailureByOneMeasure checks that the limits apply to the measure that the sentence quotes, not to the other one,
// which may be chance.
func TestFailureByOneMeasure(t *testing.T) {
	sure, chance := Interval{0.015, 0.013, 0.017}, Interval{0.04, -0.09, 0.19}
	for _, c := range []struct {
		median, mean Interval
		over, floor  float64
		want         bool
	}{
		{sure, chance, 0.03, 0, false},
		{sure, chance, 0.01, 0, true},
		{sure, chance, 0.01, 2, false},                    // 1.5 ms of the median
		{sure, Interval{0.04, 0.03, 0.05}, 0.03, 2, true}, // 4 ms of the mean
		{sure, Interval{0.04, 0.03, 0.05}, 0.03, 5, false},
	} {
		r := &Result{Kind: Slower, Median: c.median, Mean: c.mean, BaseMS: 100, NewMS: 101.5, StepMS: 9, meanMS: [2]float64{100, 104}, failOver: c.over, floor: c.floor}
		if got := r.fails(); got != c.want {
			t.Errorf("median %v, mean %v, limits %v and %v ms: failure %v, want %v", c.median, c.mean, c.over, c.floor, got, c.want)
		}
	}
}
