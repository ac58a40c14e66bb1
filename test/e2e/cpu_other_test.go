//go:build !linux

package e2e

import (
	"errors"
	"time"
)

// threadTime returns 0: unknown on this system.
func threadTime() time.Duration { return 0 }

// processTime returns 0: unknown on this system.
func processTime() time.Duration { return 0 }

// timesTaken returns 0: unknown on this system.
func timesTaken() int64 { return 0 }

// setNice returns an error on this system.
func setNice(int) error { return errors.ErrUnsupported }
