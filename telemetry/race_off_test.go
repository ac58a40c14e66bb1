//go:build !race

package telemetry_test

// raceEnabled tells that the race detector is on.
const raceEnabled = false
