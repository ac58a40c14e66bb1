//go:build !race

package torch_test

import "math"

const (
	raceLimit = int64(math.MaxInt64)
	raceSlow  = 1
)
