package otlp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/trainspan/trainspan/internal/export/delivery"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/platform/otlpform"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// spillSuffix is the end of the names of spill files: JSON lines, each the OTLP
// form of one batch.
const spillSuffix = ".otlp.jsonl"

// spillPrefix is the start of the names of files that exporters made. Other
// files are never deleted.
const spillPrefix = "spans-"

var errSpillFull = errors.New("the spill directory is full")

// lookEvery is how often the other files are counted while a file grows. Processes
// that share a directory may together exceed its bound by that part of a file each.
const lookEvery = 16

// spill writes batches to files of a directory, within a bound for all its
// files. It implements delivery.Spill.
type spill struct {
	dir       string
	maxBytes  int64
	fileBytes int64

	mu     sync.Mutex
	file   *os.File
	size   int64     // of file
	spans  int       // in file
	others int64     // bytes of the other files
	looked time.Time // when others was counted
	seen   int64     // the size of file then
	made   int
	closed bool
}

func newSpill(c *Config) *spill {
	s := &spill{dir: c.SpillDir, maxBytes: int64(c.SpillBytes), fileBytes: c.SpillFileBytes}
	if s.maxBytes <= 0 {
		s.maxBytes = defaultSpillBytes
	}
	if s.fileBytes <= 0 {
		s.fileBytes = defaultSpillFileBytes
	}
	return s
}

// Keep writes a batch as one line, all of it or nothing. Once ctx is done it
// writes nothing, because the batch then counts as lost.
func (s *spill) Keep(ctx context.Context, batch []sdktrace.ReadOnlySpan) (int, error) {
	line, err := otlpform.AppendJSON(nil, transform(batch))
	if err != nil {
		return 0, fmt.Errorf("otlp: spill: %w", err)
	}
	line = append(line, '\n')
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("otlp: spill: %w", err)
	}
	gone := s.missing()
	if err := s.write(line); err != nil {
		return 0, errors.Join(fmt.Errorf("otlp: spill: %w", err), gone)
	}
	s.spans += len(batch)
	return len(batch), gone
}

// missing detects that the file was removed with its contents. The next batch
// goes to a new one.
func (s *spill) missing() error {
	if s.file == nil || !changed(s.file, s.file.Name()) {
		return nil
	}
	lost := &delivery.SpillLost{Spans: s.spans, Err: fmt.Errorf("otlp: spill: %s was removed", s.file.Name())}
	_ = s.file.Close() // its contents are gone
	s.file, s.spans = nil, 0
	return lost
}

func (s *spill) write(line []byte) error {
	if s.closed {
		return os.ErrClosed
	}
	if s.file != nil && s.size > 0 && s.size+int64(len(line)) > s.fileBytes {
		if err := s.end(); err != nil {
			return err
		}
	}
	if s.file == nil {
		if err := s.begin(); err != nil {
			return err
		}
	}
	full := func() bool { return s.others+s.size+int64(len(line)) > s.maxBytes }
	// A replay may have made room, and the other processes of the directory write too.
	if full() && time.Since(s.looked) >= time.Second || s.size-s.seen >= s.fileBytes/lookEvery {
		if err := s.look(); err != nil && full() {
			return err
		}
	}
	if full() {
		return errSpillFull
	}
	n, err := s.file.Write(line)
	if err != nil {
		// An incomplete line would hide the next one.
		if n > 0 && s.file.Truncate(s.size) == nil {
			_, _ = s.file.Seek(s.size, 0)
		}
		return err
	}
	s.size += int64(n)
	return nil
}

// begin creates the next file, and locks it against a replay.
func (s *spill) begin() error {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	if err := s.look(); err != nil {
		return err
	}
	if s.others >= s.maxBytes {
		return errSpillFull
	}
	host := identity.HostName()
	var err error
	s.made, err = fswrite.NextFree(s.made+1, func(n int) error {
		name := fmt.Sprintf(spillPrefix+"%s-%d-%d-%d%s", fswrite.SafeName(host, 100), os.Getpid(), time.Now().UnixNano(), n, spillSuffix)
		f, err := fswrite.Create(filepath.Join(s.dir, name), 0o600)
		if err != nil {
			return err
		}
		// Locked, it is in use. A replay that finds it earlier deletes it, because it
		// is empty.
		if !fswrite.Lock(f) || changed(f, f.Name()) {
			return errors.Join(fs.ErrExist, f.Close())
		}
		s.file, s.size, s.seen, s.spans = f, 0, 0, 0
		return nil
	})
	return err
}

// look counts the bytes of the other files.
func (s *spill) look() error {
	files, err := spillFiles(s.dir)
	if err != nil {
		return err
	}
	s.others, s.looked, s.seen = 0, time.Now(), s.size
	for _, f := range files {
		if s.file == nil || f.path != s.file.Name() {
			s.others += f.size
		}
	}
	return nil
}

// end closes the file, and removes it if it is empty.
func (s *spill) end() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	if s.size == 0 {
		_ = fswrite.Remove(f.Name(), fswrite.Same(f))
	}
	return f.Close()
}

// Close ends the spill.
func (s *spill) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if gone := s.missing(); gone != nil {
		return gone
	}
	return s.end()
}

type spillFile struct {
	path string
	size int64
}

// spillFiles lists the spill files of a directory by name, which for the files
// of one process is by age.
func spillFiles(dir string) ([]spillFile, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []spillFile
	for _, e := range entries {
		if !e.Type().IsRegular() || !strings.HasSuffix(e.Name(), spillSuffix) {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) { // replayed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		files = append(files, spillFile{filepath.Join(dir, e.Name()), info.Size()})
	}
	return files, nil
}
