//go:build !race

package telemetry_test

// raceEnabled is true if the race detector is on.
const raceEnabled = false
