package pytorch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/trainspan/trainspan/internal/infile"
	"github.com/trainspan/trainspan/internal/kineto"
)

// errInterrupted is reported for a file whose import was under way when the
// watcher's process ended. Part of its events may have been written.
var errInterrupted = errors.New("pytorch: an earlier import of this file was interrupted")

// WatchOptions adjust a Watcher. The zero value and nil work.
type WatchOptions struct {
	// Interval is the time between two looks, two seconds when zero.
	Interval time.Duration
	// StateFile remembers what was imported, ".trainspan-imported.json" in the
	// watched directory when empty. One watcher at a time may use it.
	StateFile string
	// Retry imports files again whose import was interrupted or failed. Leave
	// it off when a sink cannot take events back.
	Retry bool
	// Skip leaves out files, as those that were there before; nil leaves out none.
	Skip func(fs.FileInfo) bool
	// Import is handed to Import.
	Import *Options
	// OnFile, when set, is called after every file from the goroutine of Run
	// or Scan, with the import's report and error.
	OnFile func(path string, report *Report, err error)
}

// Watcher imports every trace that PyTorch finishes in a directory once, in
// the order of their time stamps, and never again, also after a restart. It
// looks at the directory in intervals and needs no help from the system, so
// that network file systems work. TORCH_TRACE logs are left alone, as they
// grow as long as the job lives. Its methods are for one goroutine at a time.
type Watcher struct {
	dir   string
	sink  Sink
	opts  WatchOptions
	state *watchState
	seen  map[string]sighting
	again bool
}

// sighting is what the last look saw of a file that is not imported yet.
type sighting struct {
	size    int64
	modTime time.Time
	// unfinished remembers that the contents did not end as they should, so
	// that the leftover of a dead job is not read again and again.
	unfinished bool
}

// NewWatcher returns a watcher of dir and reads its state file. Files named in
// the state as under way are reported as interrupted by the first Scan.
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
	return w, nil
}

// Run looks at the directory until ctx ends, and returns its error, or the
// error of a state file that cannot be written. A file that cannot be imported
// is reported and does not end the watch.
func (w *Watcher) Run(ctx context.Context) error {
	t := time.NewTicker(w.opts.Interval)
	defer t.Stop()
	for {
		if _, _, err := w.Scan(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
	}
}

// Scan looks once and imports what is finished: a file whose size and date have
// not changed since the last Scan and whose contents end as they should. It
// returns how many files were imported, and which were seen and not imported, in order
// and without their folder: they were still changing, or do not end as a trace does, as
// when the job was killed while it wrote them.
func (w *Watcher) Scan(ctx context.Context) (imported int, unfinished []string, err error) {
	if err := w.interrupted(); err != nil {
		return 0, nil, err
	}
	files, err := w.candidates()
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
	return imported, slices.Sorted(maps.Keys(w.seen)), err
}

// interrupted reports what an earlier process left half done.
func (w *Watcher) interrupted() error {
	if w.again {
		return nil
	}
	w.again = true
	changed := false
	for _, key := range slices.Sorted(maps.Keys(w.state.Files)) {
		f := w.state.Files[key]
		if f.State != stateImporting {
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
		return w.state.save(w.opts.StateFile)
	}
	return nil
}

func (w *Watcher) report(path string, r *Report, err error) {
	if w.opts.OnFile != nil {
		w.opts.OnFile(path, r, err)
	}
}

// candidates lists the traces in the directory in the order of their stamps.
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
	if last.unfinished {
		return false, nil
	}
	if kind, ok := profile(c.path); kind == infile.CompileLog || !ok {
		last.unfinished = true // not until it is another file
		w.seen[c.name] = last
		return false, nil
	}
	if done, err := finished(c.path); err != nil {
		return false, nil // looked at again next time
	} else if !done {
		last.unfinished = true
		w.seen[c.name] = last
		return false, nil
	}
	key, err := fingerprint(c.path, c.size)
	if err != nil {
		return false, nil
	}
	if f, known := w.state.Files[key]; known && !(w.opts.Retry && f.State == stateFailed) {
		// The same bytes under another name or date: remember the name.
		f.Name, f.Size, f.ModTime = c.name, c.size, c.modTime.UnixNano()
		w.state.put(key, f)
		delete(w.seen, c.name)
		return false, w.state.save(w.opts.StateFile)
	}
	// Written before the first event: a crash in between must not lead to a
	// second import.
	entry := stateEntry{Name: c.name, Size: c.size, ModTime: c.modTime.UnixNano(), State: stateImporting}
	w.state.put(key, entry)
	if err := w.state.save(w.opts.StateFile); err != nil {
		return false, err
	}
	src := Source{Name: c.path, ModTime: c.modTime, Open: opener(c.path)}
	rep, err := Import(ctx, w.sink, []Source{src}, w.opts.Import)
	entry.State = stateDone
	var noSink *sinkError
	if err != nil && (ctx.Err() != nil && rep.written() == 0 || errors.As(err, &noSink)) {
		// Stopped before the first event: nothing keeps a later import from it.
		w.state.drop(key)
		return false, errors.Join(err, w.state.save(w.opts.StateFile))
	}
	if err != nil && rep.Spans != nil && errors.Is(err, rep.Spans.Err) {
		// The events are in the sink: another import would double them.
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
	if saveErr := w.state.save(w.opts.StateFile); saveErr != nil {
		return entry.State == stateDone, saveErr
	}
	w.report(c.path, rep, err)
	return entry.State == stateDone, nil
}
