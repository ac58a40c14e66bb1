//go:build !unix

package ring

import (
	"errors"
	"os"
)

// Supported is true if ring buffers can be read on this system.
const Supported = false

func openFile(path string, _ bool) (*os.File, error) { return os.Open(path) }

func mapFile(*os.File, int64, int, bool) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmap([]byte) {}
