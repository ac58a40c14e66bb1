package torch

import (
	"math"
	"testing"
)

// Clocks drift by at most the kernel's limit of 500 ppm; a larger slope is
// another fault, and is not corrected.
func TestFitTakesADriftOfClocksOnly(t *testing.T) {
	const second = int64(1e9)
	for ppm, want := range map[float64]float64{0: 0, 20: 20, 200: 200, -400: -400, 490: 490, 510: 0, -600: 0, 5000: 0} {
		var pts []point
		for i := range int64(40) {
			x := i * second / 4
			pts = append(pts, point{x, 3*second + int64(ppm*1e-6*float64(x)) + i%3*100})
		}
		f := fitClock(pts, 1000)
		if got := f.drift * 1e6; math.Abs(got-want) > 0.1 {
			t.Errorf("fit of a drift of %v ppm gives %v, want %v", ppm, got, want)
		}
		if off := float64(f.toTrace(0) - 3*second); want == ppm && math.Abs(off) > 1000 {
			t.Errorf("fit of a drift of %v ppm: the offset is off by %v ns, want at most 1000", ppm, off)
		}
	}
}
