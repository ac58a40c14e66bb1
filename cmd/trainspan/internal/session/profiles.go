//go:build unix

package session

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/torch"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/platform/identity"
)

// profiles imports the files that PyTorch's profiler writes to a directory.
type profiles struct {
	s      *start
	before map[string]fs.FileInfo // existing files
	dir    *os.File               // locked while this command imports: of those that share the directory, one does
	watch  *torch.Watcher         // nil until then
	trace  *dftracer.Writer
	cancel context.CancelFunc // interrupts an import
	end    chan struct{}      // closed: no further scan
	done   chan struct{}

	unfinished []string // files that the last scan did not import
}

// lookEvery is the time between two scans of the directory.
const lookEvery = 2 * time.Second

// newProfiles returns a profiles that records which files exist before the
// command.
func newProfiles(s *start) *profiles {
	return &profiles{s: s, before: filesIn(string(s.set.Profile)), end: make(chan struct{}), done: make(chan struct{})}
}

// start begins to watch the directory, which the command may create later.
func (p *profiles) start() {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() {
		defer close(p.done)
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		for {
			p.scan(ctx)
			select {
			case <-p.end:
				return
			case <-ticker.C:
			}
		}
	}()
}

// scan imports the finished files of the directory once.
func (p *profiles) scan(ctx context.Context) {
	p.s.try("the import of profiles", func() error {
		if p.watch == nil {
			info, err := os.Stat(string(p.s.set.Profile))
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && !info.IsDir() {
				err = &fs.PathError{Op: "watch", Path: string(p.s.set.Profile), Err: errors.New("is not a directory")}
			}
			if err != nil {
				return err
			}
			if p.dir == nil {
				if p.dir, err = os.Open(string(p.s.set.Profile)); err != nil {
					return err
				}
			}
			if !fswrite.Lock(p.dir) { // another command imports, until it ends
				return nil
			}
			if p.watch, err = p.watcher(); err != nil {
				return err
			}
		}
		var err error
		_, p.unfinished, err = p.watch.Scan(ctx)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	})
}

// filesIn returns the files of a directory by name. Later states are compared
// with it, because the clock of a file server may differ from that of this
// node.
func filesIn(dir string) map[string]fs.FileInfo {
	entries, _ := os.ReadDir(dir) // it may not exist yet
	all := make(map[string]fs.FileInfo, len(entries))
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			all[e.Name()] = info
		}
	}
	return all
}

// watcher returns the watcher. The directory may also have files of earlier
// starts: only files written since this start are imported.
func (p *profiles) watcher() (*torch.Watcher, error) {
	attempt := p.s.where.Attempt
	opts := &torch.Options{Host: identity.HostName()}
	opts.Begin = func(start time.Time) (torch.Sink, error) {
		if p.trace == nil {
			w, err := dftracer.Create(filepath.Join(p.s.dir, "profiles.pfw.gz"), &dftracer.Options{
				Heartbeat: -1, Start: start, Process: dftracer.Process{Attempt: &attempt, SessionTag: p.s.tag(), JobID: p.s.run.Job},
			})
			if err != nil {
				return nil, err
			}
			p.trace = w
		}
		return p.trace, nil
	}
	skip := func(info fs.FileInfo) bool {
		old := p.before[info.Name()]
		return old != nil && os.SameFile(old, info) && old.Size() == info.Size() && old.ModTime().Equal(info.ModTime())
	}
	// The commands of this start on this node share the state, so that the next importer
	// continues where the last one ended.
	folder := p.s.dir
	if !p.s.sharesFolder() {
		folder = filepath.Dir(folder)
	}
	state := filepath.Join(folder, "profiles-"+fswrite.SafeName(identity.HostName(), 100)+".json")
	return torch.NewWatcher(string(p.s.set.Profile), nil, &torch.WatchOptions{
		Interval: lookEvery, StateFile: state, Import: opts, Skip: skip, Written: p.written,
		OnFile: func(path string, _ *torch.Report, err error) {
			if err != nil {
				p.s.problem("%s: not imported: %v; see "+helptopic.Profile, filepath.Base(path), err)
			}
		},
	})
}

// writtenWait is the longest time for events of a profile that are still in memory.
const writtenWait = 10 * time.Second

// written waits until everything imported so far is in the trace.
func (p *profiles) written(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writtenWait)
	defer cancel()
	return p.trace.FlushContext(ctx)
}

// settle is the time for which a file must be unchanged to count as finished.
const settle = 200 * time.Millisecond

// close imports the remaining files. A file counts as finished if two scans
// find it unchanged.
func (p *profiles) close(ctx context.Context) error {
	if p.cancel == nil { // the command did not start
		return nil
	}
	close(p.end) // an import that has begun is completed
	defer context.AfterFunc(ctx, p.cancel)()
	defer p.cancel()
	<-p.done
	p.scan(ctx)
	select {
	case <-ctx.Done():
	case <-time.After(settle):
	}
	p.scan(ctx)
	_ = p.dir.Close() // another command imports from here
	switch {
	case p.watch == nil && p.dir != nil: // another command imports
	case p.watch == nil:
		p.s.problem("%s: no profile was imported: the directory does not exist; see "+helptopic.Profile, p.s.set.Profile)
	default:
		for _, name := range p.unfinished {
			p.s.problem("%s: not imported: the file is incomplete; see "+helptopic.Profile, name)
		}
	}
	return p.trace.CloseContext(ctx)
}
