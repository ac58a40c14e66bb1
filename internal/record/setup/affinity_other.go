//go:build !linux

package setup

// coreAffinity returns nil: the cores are not known on this system.
func coreAffinity() []int { return nil }
