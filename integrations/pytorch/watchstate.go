package pytorch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/trainspan/trainspan/internal/infile"
	"github.com/trainspan/trainspan/internal/outfile"
)

const (
	stateImporting   = "importing"
	stateDone        = "done"
	stateFailed      = "failed"
	stateRefused     = "refused"
	stateInterrupted = "interrupted"
)

// watchState is the state file of a Watcher: what was imported, by a
// fingerprint of the contents, so that renaming or touching a file does not
// bring it back.
type watchState struct {
	Version int                   `json:"version"`
	Files   map[string]stateEntry `json:"files"`

	byName map[string]stateEntry // the latest entry of every name
	ours   outfile.Proof         // of the file as it was read or written last; nil: there is none
}

// put stores an entry under the fingerprint of its file.
func (s *watchState) put(key string, e stateEntry) {
	s.Files[key] = e
	s.byName[e.Name] = e
}

// drop forgets a file.
func (s *watchState) drop(key string) {
	delete(s.byName, s.Files[key].Name)
	delete(s.Files, key)
}

type stateEntry struct {
	Name    string `json:"name"`
	Size    int64  `json:"size"`
	ModTime int64  `json:"mtime_ns"`
	State   string `json:"state"`
	Error   string `json:"error,omitempty"`
}

func loadState(path string) (*watchState, error) {
	s := &watchState{Version: 1, Files: map[string]stateEntry{}, byName: map[string]stateEntry{}}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pytorch: watch: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("pytorch: watch: %w", err)
	}
	s.Version, s.Files, s.ours = 0, nil, outfile.Same(f)
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("pytorch: watch: state file %s is damaged (%w); remove it to import everything again", path, err)
	}
	if s.Version == 0 || s.Files == nil {
		return nil, fmt.Errorf("pytorch: watch: %s is no state file of a watch and is left alone; name another one", path)
	}
	if s.Version != 1 {
		return nil, fmt.Errorf("pytorch: watch: state file %s has version %d, this program knows 1; remove it to import everything again", path, s.Version)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Files)) {
		// Of several files that had one name, the latest counts.
		if e := s.Files[key]; e.ModTime >= s.byName[e.Name].ModTime {
			s.byName[e.Name] = e
		}
	}
	return s, nil
}

// save replaces the state file in one step, so that a crash leaves the old or
// the new one. What somebody else has put there is left.
func (s *watchState) save(path string) error {
	data, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return fmt.Errorf("pytorch: watch: %w", err)
	}
	ours, err := outfile.Write(path, data, 0o600, s.ours)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("pytorch: watch: another program writes the state file %s: %w", path, err)
	}
	if err != nil {
		return fmt.Errorf("pytorch: watch: %w", err)
	}
	s.ours = ours
	return nil
}

// candidate is a file of the directory.
type candidate struct {
	path, name string
	size       int64
	modTime    time.Time
	stamp      int64
}

// unchanged reports whether a file is one that was dealt with, by name, size
// and date, without reading it.
func (s *watchState) unchanged(c candidate) bool {
	e, ok := s.byName[c.name]
	return ok && e.Size == c.size && e.ModTime == c.modTime.UnixNano()
}

// fingerprint hashes the size, the first and the last 64 KiB of a file.
func fingerprint(path string, size int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	fmt.Fprintf(h, "%d\n", size)
	const part = 64 << 10
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, min(size, part))); err != nil {
		return "", err
	}
	if size > part {
		if _, err := io.Copy(h, io.NewSectionReader(f, max(size-part, part), part)); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// finished reports whether the contents of a file end as a finished trace
// does: the JSON is closed, and a gzip file is whole down to its checksum.
func finished(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var head [512]byte
	n, err := io.ReadFull(f, head[:])
	if n == 0 {
		return false, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	if infile.IsGzip(head[:n]) {
		zr, err := gzip.NewReader(f)
		if err != nil {
			return false, nil
		}
		t := &tail{}
		if _, err := io.Copy(t, zr); err != nil {
			return false, nil
		}
		return t.closed(), nil
	}
	if infile.IsTar(head[:n]) {
		fi, err := f.Stat()
		return err == nil && fi.Size()%512 == 0, err
	}
	fi, err := f.Stat()
	if err != nil {
		return false, err
	}
	t := &tail{}
	_, err = io.Copy(t, io.NewSectionReader(f, max(fi.Size()-512, 0), 512))
	return err == nil && t.closed(), err
}

// tail keeps the last bytes that are written to it.
type tail struct {
	last  [512]byte
	n     int
	isTar bool
	any   bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.isTar = t.isTar || !t.any && infile.IsTar(p)
	t.any = t.any || len(p) > 0
	if len(p) >= len(t.last) {
		t.n = copy(t.last[:], p[len(p)-len(t.last):])
		return len(p), nil
	}
	keep := min(t.n, len(t.last)-len(p))
	copy(t.last[:], t.last[t.n-keep:t.n])
	t.n = keep + copy(t.last[keep:], p)
	return len(p), nil
}

func (t *tail) closed() bool {
	if t.isTar {
		return true
	}
	b := bytes.TrimSpace(t.last[:t.n])
	return len(b) > 0 && (b[len(b)-1] == '}' || b[len(b)-1] == ']')
}
