// Package heap bounds the memory that a command uses for garbage.
package heap

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Bound sets how large the heap of a command gets that reads much and keeps little of it.
// Up to so many bytes the collector seldom runs; beyond, the heap is at most a quarter
// larger than what is in use. It is for programs, not for libraries, and changes nothing
// where GOGC or GOMEMLIMIT is set.
func Bound(bytes int64) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(bytes)
	eachCollection(func() { follow(bytes) })
}

// follow sets the limit by the live heap after the last collection.
func follow(least int64) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	limit := max(least, int64(live[0].Value.Uint64())/4*5)
	if now := debug.SetMemoryLimit(-1); limit > now || limit < now/10*9 { // setting the limit stops the world
		debug.SetMemoryLimit(limit)
	}
}

// eachCollection calls do after each collection.
func eachCollection(do func()) {
	runtime.SetFinalizer(&struct{ _ *byte }{}, func(any) {
		do()
		eachCollection(do)
	})
}
