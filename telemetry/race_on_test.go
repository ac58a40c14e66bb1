//go:build race

package telemetry_test

// raceEnabled reports that the race detector is on, under which sync.Pool
// forgets at random.
const raceEnabled = true
