// Package active counts the enabled telemetry providers of the process, for packages
// whose calls do nothing without a provider and that want to warn about it.
package active

import "sync/atomic"

var (
	providers atomic.Int64
	quiet     atomic.Bool
)

// Enter counts an enabled provider, and makes Quiet false.
func Enter() {
	providers.Add(1)
	quiet.Store(false)
}

// Leave undoes one Enter.
func Leave() { providers.Add(-1) }

// Providers returns the number of enabled providers.
func Providers() int64 { return providers.Load() }

// Quiet reports whether no Enter has been called since Rest. It costs one atomic load.
func Quiet() bool { return quiet.Load() }

// Rest makes Quiet true until the next Enter. To avoid a race, call Providers after it.
func Rest() { quiet.Store(true) }
