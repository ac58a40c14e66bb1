package checkpoint

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	prefix    = "step-"
	suffix    = ".ckpt"
	temporary = ".writing-"
)

// Store keeps the newest Keep checkpoints of one run in one directory. Its
// methods are not safe for concurrent use; a [Writer] serializes them.
type Store struct {
	dir  string
	keep int
}

// Open creates the directory if it is missing, and removes half-written files
// of a run that was killed while saving. One store at a time may use a
// directory. If keep is below one, the store keeps all checkpoints.
func Open(dir string, keep int) (*Store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), temporary) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return nil, fmt.Errorf("checkpoint: %w", err)
		}
	}
	return &Store{dir: dir, keep: keep}, nil
}

// Dir returns the directory of the files.
func (s *Store) Dir() string { return s.dir }

// Saved describes one written checkpoint.
type Saved struct {
	Position
	Path  string
	Bytes int64
}

// Save gives the file its final name only when it is complete on the disk: it
// writes a temporary file, syncs it, renames it and syncs the directory. Then
// it removes the oldest files beyond Keep. On an error it leaves no file.
func (s *Store) Save(state *State) (Saved, error) {
	out := Saved{Position: state.Position}
	out.Path = filepath.Join(s.dir, fmt.Sprintf("%s%09d%s", prefix, state.Step, suffix))
	f, err := os.CreateTemp(s.dir, temporary+"*")
	if err != nil {
		return out, fmt.Errorf("checkpoint: %w", err)
	}
	out.Bytes, err = writeSynced(f, state)
	if err == nil {
		err = os.Rename(f.Name(), out.Path)
	}
	if err != nil {
		return out, errors.Join(fmt.Errorf("checkpoint: save %s: %w", out.Path, err), os.Remove(f.Name()))
	}
	if err := syncDir(s.dir); err != nil {
		return out, fmt.Errorf("checkpoint: sync %s: %w", s.dir, err)
	}
	return out, s.prune(out.Path)
}

func writeSynced(f *os.File, state *State) (int64, error) {
	w := bufio.NewWriterSize(f, 1<<16)
	n, err := Write(w, state)
	return n, errors.Join(err, w.Flush(), f.Chmod(0o644), f.Sync(), f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// prune removes the oldest files, but never written, the file just saved.
func (s *Store) prune(written string) error {
	if s.keep < 1 {
		return nil
	}
	paths, err := s.Paths()
	if err != nil {
		return err
	}
	for len(paths) > s.keep {
		if paths[0] != written {
			if err := os.Remove(paths[0]); err != nil {
				return fmt.Errorf("checkpoint: %w", err)
			}
		}
		paths = paths[1:]
	}
	return nil
}

// Paths lists the checkpoints, the oldest step first. It ignores files with
// other names.
func (s *Store) Paths() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	type found struct {
		step int64
		path string
	}
	var all []found
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), prefix)
		digits, ok2 := strings.CutSuffix(digits, suffix)
		step, err := strconv.ParseInt(digits, 10, 64)
		if ok && ok2 && err == nil && e.Type().IsRegular() {
			all = append(all, found{step, filepath.Join(s.dir, e.Name())})
		}
	}
	slices.SortFunc(all, func(a, b found) int { return int(min(max(a.step-b.step, -1), 1)) })
	paths := make([]string, len(all))
	for i, f := range all {
		paths[i] = f.path
	}
	return paths, nil
}

// Load reads one file.
func Load(path string) (*State, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	defer f.Close()
	s, err := Read(bufio.NewReaderSize(f, 1<<16))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// LoadNewest reads the newest valid checkpoint. It skips damaged newer ones and
// returns their errors in skipped. If the directory has no checkpoint, the
// state is nil and the path empty; if it has only damaged ones, LoadNewest
// returns an error.
func (s *Store) LoadNewest() (state *State, path string, skipped []error, err error) {
	paths, err := s.Paths()
	if err != nil {
		return nil, "", nil, err
	}
	for _, p := range slices.Backward(paths) {
		state, err := Load(p)
		if err == nil {
			return state, p, skipped, nil
		}
		skipped = append(skipped, err)
	}
	return nil, "", skipped, errors.Join(skipped...)
}

// Clear removes every checkpoint, for a run that starts from the beginning.
func (s *Store) Clear() error {
	paths, err := s.Paths()
	if err != nil {
		return err
	}
	for _, p := range paths {
		err = errors.Join(err, os.Remove(p))
	}
	return err
}
