// Package active knows how many telemetry providers of the process are on, for
// packages whose calls do nothing without one and that want to say so.
package active

import "sync/atomic"

var (
	providers atomic.Int64
	quiet     atomic.Bool
)

// Enter counts a provider that is on.
func Enter() {
	providers.Add(1)
	quiet.Store(false)
}

// Leave takes back one Enter.
func Leave() { providers.Add(-1) }

// Providers is how many there are.
func Providers() int64 { return providers.Load() }

// Quiet reports whether nothing has changed since Rest. It costs one load.
func Quiet() bool { return quiet.Load() }

// Rest makes Quiet true until the next Enter. Look at Providers after it.
func Rest() { quiet.Store(true) }
