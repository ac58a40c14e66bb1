//go:build race

package telemetry_test

// raceEnabled tells that the race detector is on, under which sync.Pool
// forgets at random.
const raceEnabled = true
