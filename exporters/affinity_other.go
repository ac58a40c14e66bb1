//go:build !linux

package exporters

// coreAffinity is not known on this system.
func coreAffinity() []int { return nil }
