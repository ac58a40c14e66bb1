// Package pickle reads Python pickles that hold data alone: dictionaries, lists,
// tuples, text, numbers, truth values and None. A pickle is a program; every
// instruction that could name, make or call anything else is refused, so that nothing
// of a file is ever run.
package pickle

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// Limits bound what a pickle may take: the bytes that are read, and the values that
// are made of them. Zero means 64 MiB and four million.
type Limits struct {
	Bytes  int64
	Values int
}

const (
	defaultBytes  = 64 << 20
	defaultValues = 4 << 20
)

// Read returns the one value that a pickle holds, of protocol 2 to 5: map[string]any,
// *List, string, int64, float64, bool or nil. Keys are text. Parts that the pickle
// shares are shared in the value, which may even hold itself. It reads no further than
// the end of the pickle, but for what it buffers.
func Read(r io.Reader, l Limits) (any, error) {
	if l.Bytes == 0 {
		l.Bytes = defaultBytes
	}
	if l.Values == 0 {
		l.Values = defaultValues
	}
	limited := &io.LimitedReader{R: r, N: l.Bytes}
	m := &machine{in: bufio.NewReader(limited), left: l.Values, memo: make(map[uint32]any)}
	for {
		done, err := m.step()
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			if limited.N <= 0 {
				return nil, fmt.Errorf("pickle: larger than %d bytes", l.Bytes)
			}
			return nil, fmt.Errorf("pickle: it breaks off at byte %d", m.at)
		case err != nil:
			return nil, fmt.Errorf("pickle: at byte %d: %w", m.at, err)
		case done:
			return m.stack[0], nil
		}
	}
}
