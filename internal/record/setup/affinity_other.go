//go:build !linux

package setup

// coreAffinity is not known on this system.
func coreAffinity() []int { return nil }
