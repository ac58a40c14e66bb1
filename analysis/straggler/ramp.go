package straggler

import "math"

// ramp is a series that rises by some amount over the rounds [from, to).
type ramp struct {
	from, to int
	by       float64
}

// at gives the part of the rise that is reached in round s, 0 to 1.
func (r ramp) at(s int) float64 {
	switch {
	case s >= r.to:
		return 1
	case s > r.from:
		return float64(s-r.from) / float64(r.to-r.from)
	}
	return 0
}

// fit gives the ramp's error and its height by least squares of y = a + b·u.
func (r *ramp) fit(x []float64) (err float64) {
	var n, su, sy, suu, suy, syy float64
	for s, y := range x {
		u := r.at(s)
		n, su, sy, suu, suy, syy = n+1, su+u, sy+y, suu+u*u, suy+u*y, syy+y*y
	}
	cuu, cuy, cyy := suu-su*su/n, suy-su*sy/n, syy-sy*sy/n
	if cuu <= 0 {
		return cyy
	}
	r.by = cuy / cuu
	return cyy - cuy*cuy/cuu
}

// findRamp fits low, a ramp, high to x, which changes at step, and says whether
// that is clearly the better explanation: a ratio of likelihoods of e^7.5, as
// much as noise that is correlated over some rounds needs.
func findRamp(x []float64, step int) (ramp, bool) {
	// 80 places keep the search over all pairs below a millisecond; the start
	// of a ramp is not known better than to a hundredth of the run.
	grid := max(1, len(x)/80)
	best := ramp{from: step - 1, to: step}
	stepError := best.fit(x)
	least := stepError
	for t0 := 0; t0 <= step; t0 += grid {
		// A ramp shorter than a segment is a step.
		for t1 := t0 + minSegment; t1 <= len(x); t1 += grid {
			r := ramp{from: t0, to: t1}
			if e := r.fit(x); e < least {
				least, best = e, r
			}
		}
	}
	return best, float64(len(x))*math.Log(stepError/least) > 15 && best.from < step
}
