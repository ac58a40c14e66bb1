//go:build !race

package telemetry_test

// raceEnabled reports that the race detector is on.
const raceEnabled = false
