//go:build race

package torch_test

// The race detector makes an import ten times slower, and for one goroutine a
// part of the rows is enough.
const (
	raceLimit = int64(2 << 20)
	raceSlow  = 4
)
