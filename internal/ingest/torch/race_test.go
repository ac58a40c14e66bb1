//go:build race

package torch_test

// The race detector makes an import ten times slower and finds nothing in one
// goroutine that it does not find in a part of the rows.
const (
	raceLimit = int64(2 << 20)
	raceSlow  = 4
)
