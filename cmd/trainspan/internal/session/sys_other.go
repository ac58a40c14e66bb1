//go:build unix && !linux

package session

import "errors"

func pidfd(int) (int, error) { return 0, errors.New("not supported on this system") }
