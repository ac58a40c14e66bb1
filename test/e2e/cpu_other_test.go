//go:build !linux

package e2e

import (
	"errors"
	"time"
)

// threadTime is not known here.
func threadTime() time.Duration { return 0 }

// processTime is not known here either.
func processTime() time.Duration { return 0 }

// timesTaken is not known here either.
func timesTaken() int64 { return 0 }

// setNice is not possible here.
func setNice(int) error { return errors.ErrUnsupported }
