//go:build !linux

package e2e

import "time"

// threadTime is not known here.
func threadTime() time.Duration { return 0 }
