//go:build race

package telemetry_test

// raceEnabled tells that the race detector is on, which slows everything down.
const raceEnabled = true
