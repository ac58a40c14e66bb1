package dftracer

import (
	"math"
	"strconv"
	"testing"
)

// Numbers of any length are written in full, whatever room there is.
func TestIntegersOfEveryLength(t *testing.T) {
	check := func(v uint64) {
		t.Helper()
		for _, room := range []int{1, 64} {
			if got := string(appendUint(make([]byte, 1, room), v)[1:]); got != strconv.FormatUint(v, 10) {
				t.Errorf("%d is written as %s", v, got)
			}
		}
	}
	for p := uint64(1); ; p *= 10 {
		check(p - 1)
		check(p)
		check(p + 1)
		check(p + p/2 + p/3)
		if p > math.MaxUint64/10 {
			break
		}
	}
	for bits := range 64 {
		check(1<<bits - 1)
		check(1 << bits)
	}
	check(math.MaxUint64)
	for _, v := range []int64{0, -1, -10_000, math.MinInt64, math.MaxInt64} {
		if got := string(appendInt(nil, v)); got != strconv.FormatInt(v, 10) {
			t.Errorf("%d is written as %s", v, got)
		}
	}
}
