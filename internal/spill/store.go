package spill

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
)

// Store is a temporary file that several sorters put their rows into, so that
// many of them need one open file. The file is made when it is needed and given
// back as a whole by Close. A Store is not safe for concurrent use, and neither
// are the sorters that share one.
type Store struct {
	dir  string
	file *os.File
	size int64
	buf  *bufio.Writer // of the run being written; one at a time
}

// NewStore returns a store with its file in dir, the system's temporary
// directory when empty.
func NewStore(dir string) *Store { return &Store{dir: dir} }

// next returns a writer behind what was written, and where that is.
func (s *Store) next() (*bufio.Writer, int64, error) {
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "trainspan-sort-*")
		if err != nil {
			return nil, 0, fmt.Errorf("spill: %w", err)
		}
		s.file = f
		// The name is not needed; without it a crash leaves nothing behind.
		_ = os.Remove(f.Name())
	}
	to := io.NewOffsetWriter(s.file, s.size)
	if s.buf == nil {
		s.buf = bufio.NewWriterSize(to, 64<<10)
	} else {
		s.buf.Reset(to)
	}
	return s.buf, s.size, nil
}

// Close returns up the file and the rows in it. It may be called more than once.
func (s *Store) Close() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file, s.buf = nil, nil
	defer func() { _ = os.Remove(f.Name()) }() // on a system that could not remove an open file
	if err := f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("spill: %w", err)
	}
	return nil
}
