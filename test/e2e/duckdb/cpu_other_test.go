//go:build !linux

package duckdb

import (
	"testing"
	"time"
)

// cpuTime is not known here.
func cpuTime(*testing.T) time.Duration { return 0 }
