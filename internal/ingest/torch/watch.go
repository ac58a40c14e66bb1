package torch

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
)

// errInterrupted is reported for a file whose import was in progress when the
// watcher's process ended. Part of its events may have been written.
var errInterrupted = errors.New("pytorch: an earlier import of this file was interrupted")

// WatchOptions adjust a Watcher. The zero value and nil mean the defaults.
type WatchOptions struct {
	// Interval is the time between two scans, two seconds if zero.
	Interval time.Duration
	// StateFile remembers what was imported; the default is
	// ".trainspan-imported.json" in the watched directory. Only one watcher at a
	// time may use it.
	StateFile string
	// Retry imports files again, once, whose import by an earlier watcher was
	// interrupted or failed. Leave it off if a sink cannot undo events.
	Retry bool
	// Skip returns true for files to leave out, such as existing ones; nil leaves
	// out none.
	Skip func(fs.FileInfo) bool
	// Import is passed to Import.
	Import *Options
	// Written, if set, waits until the sink has stored what it was given. A file
	// counts as imported only if it returns nil.
	Written func(context.Context) error
	// OnWait, if set, is called when Run begins to wait because of an error whose
	// cause may pass, such as a full disk.
	OnWait func(error)
	// OnFile, if set, is called after every file from the goroutine of Run or Scan,
	// with the import's report and error.
	OnFile func(path string, report *Report, err error)
}

// Watcher imports every trace that PyTorch finishes in a directory once, in the
// order of their time stamps, and never again, also after a restart. It polls
// the directory, so that network file systems work. TORCH_TRACE logs are
// ignored, because they grow as long as the job lives. Its methods are for one
// goroutine at a time.
type Watcher struct {
	dir   string
	sink  Sink
	opts  WatchOptions
	state *watchState
	seen  map[string]sighting
	again bool

	store   func(path string) error // watchState.save
	unsaved bool                    // the state could not be stored
}

// sighting is the last known state of a file that is not imported yet.
type sighting struct {
	size    int64
	modTime time.Time
	// unfinished means that the contents had no proper end, so that the file of a
	// dead job is not read again and again.
	unfinished bool
	foreign    bool // not a profile; it is not read again either
}

// NewWatcher returns a watcher of dir and reads its state file. Imports in
// progress in the state are reported as interrupted by the first Scan.
func NewWatcher(dir string, sink Sink, opts *WatchOptions) (*Watcher, error) {
	w := &Watcher{dir: dir, sink: sink, seen: map[string]sighting{}}
	if opts != nil {
		w.opts = *opts
	}
	if w.opts.Interval <= 0 {
		w.opts.Interval = 2 * time.Second
	}
	if w.opts.StateFile == "" {
		w.opts.StateFile = filepath.Join(dir, ".trainspan-imported.json")
	}
	fi, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("pytorch: watch: %w", err)
	}
	if !fi.IsDir() {
		return nil, fmt.Errorf("pytorch: watch: %s is not a directory", dir)
	}
	if w.state, err = loadState(w.opts.StateFile); err != nil {
		return nil, err
	}
	w.store = w.state.save
	return w, nil
}

// save stores the state. If that fails, the next scan tries it again.
func (w *Watcher) save() error {
	err := w.store(w.opts.StateFile)
	w.unsaved = err != nil
	return err
}

// Run polls the directory until ctx ends, and returns its error, or that of a
// state file or a sink that cannot be written. If the cause may pass, such as a
// full disk, it waits instead. A file that cannot be imported is reported and
// does not end Run.
func (w *Watcher) Run(ctx context.Context) error {
	t := time.NewTicker(w.opts.Interval)
	defer t.Stop()
	waits := false
	for {
		_, _, err := w.Scan(ctx)
		if err != nil && !fswrite.MayPass(err) {
			return err
		}
		if err != nil && !waits && w.opts.OnWait != nil {
			w.opts.OnWait(err)
		}
		waits = err != nil
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
	}
}

// Scan imports what is finished: a file whose size and date have not changed
// since the last Scan and whose contents are complete. It returns how many
// files were imported, and which profiles were not, in order and without their
// folder: they were still changing, or are incomplete, for example because the
// job was killed while it wrote them.
func (w *Watcher) Scan(ctx context.Context) (imported int, unfinished []string, err error) {
	if w.unsaved {
		if err := w.save(); err != nil {
			return 0, nil, err
		}
	}
	if err := w.interrupted(); err != nil {
		return 0, nil, err
	}
	files, err := w.candidates()
	if err != nil {
		return 0, nil, err
	}
	exists := make(map[string]bool, len(files))
	for _, f := range files {
		exists[f.name] = true
	}
	// PyTorch writes to a temporary file and renames it.
	maps.DeleteFunc(w.seen, func(name string, _ sighting) bool { return !exists[name] })
	for _, f := range files {
		if err = ctx.Err(); err != nil {
			break
		}
		var did bool
		if did, err = w.file(ctx, f); err != nil {
			break
		}
		if did {
			imported++
		}
	}
	for name, s := range w.seen {
		if !s.foreign {
			unfinished = append(unfinished, name)
		}
	}
	slices.Sort(unfinished)
	return imported, unfinished, err
}

// interrupted reports imports that an earlier process did not finish. With Retry it forgets these and failed ones
// instead, once: a file that fails again is not imported until the next watcher.
func (w *Watcher) interrupted() error {
	if w.again {
		return nil
	}
	w.again = true
	changed := false
	for _, key := range slices.Sorted(maps.Keys(w.state.Files)) {
		f := w.state.Files[key]
		if again := f.State == stateInterrupted || f.State == stateFailed; f.State != stateImporting && !(w.opts.Retry && again) {
			continue
		}
		changed = true
		if w.opts.Retry {
			w.state.drop(key)
			continue
		}
		f.State = stateInterrupted
		w.state.put(key, f)
		w.report(filepath.Join(w.dir, f.Name), nil, errInterrupted)
	}
	if changed {
		return w.save()
	}
	return nil
}

func (w *Watcher) report(path string, r *Report, err error) {
	if w.opts.OnFile != nil {
		w.opts.OnFile(path, r, err)
	}
}

// candidates returns the traces in the directory in the order of their stamps.
func (w *Watcher) candidates() ([]candidate, error) {
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		return nil, fmt.Errorf("pytorch: watch: %w", err)
	}
	var out []candidate
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil || !fi.Mode().IsRegular() || w.opts.Skip != nil && w.opts.Skip(fi) {
			continue
		}
		c := candidate{path: filepath.Join(w.dir, e.Name()), name: e.Name(), size: fi.Size(), modTime: fi.ModTime()}
		var ok bool
		if c.stamp, ok = fileStamp(c.name); !ok {
			c.stamp = fi.ModTime().UnixNano()
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.stamp, b.stamp), cmp.Compare(a.name, b.name))
	})
	return out, nil
}

// file imports one file if it is new and finished.
func (w *Watcher) file(ctx context.Context, c candidate) (bool, error) {
	if w.state.unchanged(c) {
		return false, nil
	}
	last, ok := w.seen[c.name]
	if !ok || last.size != c.size || !last.modTime.Equal(c.modTime) {
		w.seen[c.name] = sighting{size: c.size, modTime: c.modTime}
		return false, nil
	}
	if last.unfinished || last.foreign { // not until the file changes
		return false, nil
	}
	if kind, ok := profile(c.path); kind == fsread.CompileLog || !ok {
		last.foreign = true
		w.seen[c.name] = last
		return false, nil
	}
	if done, err := finished(c.path); err != nil {
		return false, nil // checked again next time
	} else if !done {
		last.unfinished = true
		w.seen[c.name] = last
		return false, nil
	}
	key, err := fingerprint(c.path, c.size)
	if err != nil {
		return false, nil
	}
	if f, known := w.state.Files[key]; known {
		// The same contents with another name or date: remember the name.
		f.Name, f.Size, f.ModTime = c.name, c.size, c.modTime.UnixNano()
		w.state.put(key, f)
		delete(w.seen, c.name)
		return false, w.save()
	}
	// Written before the first event, because a crash in between must not lead to a
	// second import.
	entry := stateEntry{Name: c.name, Size: c.size, ModTime: c.modTime.UnixNano(), State: stateImporting}
	w.state.put(key, entry)
	if err := w.save(); err != nil {
		w.state.drop(key)
		return false, err
	}
	src := Source{Name: c.path, ModTime: c.modTime, Open: opener(c.path)}
	rep, err := Import(ctx, w.sink, []Source{src}, w.opts.Import)
	unsent := err != nil && rep.Spans != nil && errors.Is(err, rep.Spans.Err) // all else is in the sink
	if w.opts.Written != nil && (err == nil || unsent) {
		if failed := w.opts.Written(ctx); failed != nil {
			err, unsent = failed, false
		}
	}
	entry.State = stateDone
	var noSink *sinkError
	if err != nil && (ctx.Err() != nil && rep.written() == 0 || errors.As(err, &noSink)) {
		// Stopped before the first event, so a later import is possible.
		w.state.drop(key)
		return false, errors.Join(err, w.save())
	}
	if unsent {
		// The events are in the sink: another import would duplicate them.
		entry.Error = err.Error()
	} else if err != nil {
		entry.State, entry.Error = stateFailed, err.Error()
		var refused *kineto.RefusedError
		if errors.As(err, &refused) {
			entry.State = stateRefused
		}
	}
	w.state.put(key, entry)
	delete(w.seen, c.name)
	w.report(c.path, rep, err)
	return entry.State == stateDone, w.save()
}

const (
	stateImporting   = "importing"
	stateDone        = "done"
	stateFailed      = "failed"
	stateRefused     = "refused"
	stateInterrupted = "interrupted"
)

// watchState is the state file of a Watcher: what was imported, by a
// fingerprint of the contents, so that renaming or touching a file does not
// import it again.
type watchState struct {
	Version int                   `json:"version"`
	Files   map[string]stateEntry `json:"files"`

	byName map[string]stateEntry // the latest entry of every name
	ours   fswrite.Proof         // of the file as it was read or written last; nil if there is none
}

// StateError means that the state file could not be opened or written.
type StateError struct {
	Path string
	Err  error
}

func (e *StateError) Error() string { return "state file " + e.Path + ": " + e.Err.Error() }

func (e *StateError) Unwrap() error { return e.Err }

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
		return nil, fmt.Errorf("pytorch: watch: %w", &StateError{path, err})
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("pytorch: watch: %w", err)
	}
	s.Version, s.Files, s.ours = 0, nil, fswrite.Same(f)
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("pytorch: watch: state file %s is damaged (%w); remove it to import everything again", path, err)
	}
	if s.Version == 0 || s.Files == nil {
		return nil, fmt.Errorf("pytorch: watch: %s is not the state file of a watch; name another file", path)
	}
	if s.Version != 1 {
		return nil, fmt.Errorf("pytorch: watch: state file %s has version %d, but this trainspan reads version 1; remove it to import everything again", path, s.Version)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Files)) {
		// Of several files that had one name, the latest counts.
		if e := s.Files[key]; e.ModTime >= s.byName[e.Name].ModTime {
			s.byName[e.Name] = e
		}
	}
	return s, nil
}

// save replaces the state file atomically, so that a crash leaves the old or
// the new one. A foreign file there is not changed.
func (s *watchState) save(path string) error {
	data, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return fmt.Errorf("pytorch: watch: %w", err)
	}
	ours, err := fswrite.Write(path, data, 0o600, s.ours)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("pytorch: watch: another program uses the state file %s: %w", path, err)
	}
	if err != nil {
		return fmt.Errorf("pytorch: watch: %w", &StateError{path, err})
	}
	s.ours = ours
	return nil
}

// candidate is a file in the directory.
type candidate struct {
	path, name string
	size       int64
	modTime    time.Time
	stamp      int64
}

// unchanged reports whether a file was handled before, by name, size and date,
// without reading it.
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

// finished reports whether the contents of a file end like a finished trace:
// the JSON is closed, and a gzip file is whole including its checksum.
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
	if fsread.IsGzip(head[:n]) {
		zr, err := gzip.NewReader(f)
		if err != nil {
			return false, nil
		}
		t := &tail{}
		if _, err := io.Copy(t, zr); err != nil {
			return false, nil
		}
		return t.isClosed(), nil
	}
	if fsread.IsTar(head[:n]) {
		fi, err := f.Stat()
		return err == nil && fi.Size()%512 == 0, err
	}
	fi, err := f.Stat()
	if err != nil {
		return false, err
	}
	t := &tail{}
	_, err = io.Copy(t, io.NewSectionReader(f, max(fi.Size()-512, 0), 512))
	return err == nil && t.isClosed(), err
}

// tail keeps the last bytes that are written to it.
type tail struct {
	last  [512]byte
	n     int
	isTar bool
	any   bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.isTar = t.isTar || !t.any && fsread.IsTar(p)
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

func (t *tail) isClosed() bool {
	if t.isTar {
		return true
	}
	b := bytes.TrimSpace(t.last[:t.n])
	return len(b) > 0 && (b[len(b)-1] == '}' || b[len(b)-1] == ']')
}
