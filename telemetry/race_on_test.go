//go:build race

package telemetry_test

// raceEnabled is true if the race detector is on, with which sync.Pool drops
// items at random.
const raceEnabled = true
