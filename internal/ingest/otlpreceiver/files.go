package otlpreceiver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/tracefile/otlpspan"
	"github.com/trainspan/trainspan/internal/tracefile/place"
)

// Defaults of FilesOptions.
const (
	DefaultMaxOpenFiles = place.DefaultMaxOpen
	DefaultMaxProcesses = place.DefaultMaxProcesses
	DefaultMaxFiles     = 16384
	DefaultMaxMemory    = place.DefaultMaxBytes
)

// AttrRecorded is a resource attribute: with the value of FilesOptions.Recorded
// the process writes its own trace files into the same directory.
const AttrRecorded = "trainspan.recorded"

// FilesOptions configures Files.
type FilesOptions struct {
	// Dir is the directory for the files, one for each process. It must exist.
	Dir string
	// SessionTag, JobID and Attempt describe the job of processes whose resources
	// do not. Attempt counts from zero; nil is unknown.
	SessionTag, JobID string
	Attempt           *int
	// Recorded is the value of [AttrRecorded] of processes that write their own
	// files; their spans are left out. Empty leaves out none.
	Recorded string
	// PID returns the process at the other end of a connection, for spans without a
	// process id. Nil, and a result of 0, mean unknown.
	PID func(net.Addr) int
	// MaxOpenFiles bounds the files that are open at once; 0 means 64. Above it,
	// and after a minute of silence of its process, a file is closed; it is opened
	// again when its process sends something.
	MaxOpenFiles int
	// MaxProcesses bounds the processes that are known at once, with open files or
	// not; 0 means 4,096. To make room the file of a process that was silent for a
	// minute is completed. If there is none, spans of further processes go to one
	// shared file.
	MaxProcesses int
	// MaxFiles bounds the files made for the processes of a host; 0 means 16,384.
	// Spans of further processes go to one shared file.
	MaxFiles int
	// MaxMemory bounds, in bytes and over all processes, what waits to be written
	// and what is remembered to find parents; 0 means 64 MiB. Above it waiting
	// spans are written early, and if that does not suffice senders are asked to
	// retry later.
	MaxMemory int64
	// MaxAttributes, MaxEvents and MaxLinks bound what is kept of a span, and
	// MaxAttributes what is kept of an event and of a process; 0 means 1,024. The
	// first ones are kept, and the rest is added to the span's counts of dropped
	// items. Links end where they would fill half a line of the file.
	MaxAttributes, MaxEvents, MaxLinks int
	// Journal keeps accepted spans in a journal in Dir until they are in the files:
	// spans for which Take returned nil survive a kill of this process. [Replay]
	// reads the rest of it.
	Journal bool
	// MaxJournal bounds the journal, in bytes; 0 means 64 MiB. Above it senders are
	// asked to retry later.
	MaxJournal int64
	// Logger logs outages of files, and each exceeded limit once; nil means
	// slog.Default.
	Logger *slog.Logger

	replay bool // the journal is that of a replay
}

// FilesStats counts since the start.
type FilesStats struct {
	Processes  int64 // files that were made, one for each process
	Spans      int64 // spans in the files
	Recorded   int64 // left out, because their processes write them
	Duplicates int64 // left out, because they came before
	Lost       int64 // lines that the disk did not take

	CutAttributes, CutEvents, CutLinks int64 // items above the limits of their spans

	SharedLane int64 // spans for which none of 256 lanes was free
	SharedFile int64 // spans of processes in the shared file
	Reopened   int64 // times that a file was opened again
	Full       int64 // requests refused because memory was full
}

// Files writes received spans as trace files. It is safe for concurrent use.
type Files struct {
	o      FilesOptions
	host   string
	limits place.Limits
	pool   *dftracer.Pool
	store  *place.Store[place.Sender]

	open    func(path string, o *dftracer.Options) (*dftracer.Writer, error)
	made    func(path string) // called for each new file, unless nil
	journal *journal          // nil if there is none

	stop    chan struct{}
	stops   sync.Once
	ticking sync.WaitGroup
	err     error

	watch                  watcher
	recorded, shared, full atomic.Int64
	failing                atomic.Bool // the last file could not be opened
}

// orderWindow is how long a span waits for its parent, which ends later.
const orderWindow = 2 * time.Second

// NewFiles returns Files without any file.
func NewFiles(options *FilesOptions) *Files { return newFiles(options, identity.HostName()) }

// newFiles returns the Files of a receiver on a host.
func newFiles(options *FilesOptions, host string) *Files {
	f := &Files{o: *options, pool: dftracer.NewPool(), open: place.Create, stop: make(chan struct{})}
	f.limits = place.Limits{Attributes: f.o.MaxAttributes, Events: f.o.MaxEvents, Links: f.o.MaxLinks}.OrDefault()
	if f.o.Logger == nil {
		f.o.Logger = slog.Default()
	}
	f.watch.log = f.o.Logger
	f.host = host
	f.store = place.NewStore(place.StoreOptions[place.Sender]{
		MaxOpen: orDefault(f.o.MaxOpenFiles, DefaultMaxOpenFiles), MaxProcesses: orDefault(f.o.MaxProcesses, DefaultMaxProcesses),
		MaxFiles: orDefault(f.o.MaxFiles, DefaultMaxFiles), MaxBytes: orDefault(f.o.MaxMemory, DefaultMaxMemory), Window: orderWindow,
		Assembler: place.Options{MaxWaiting: maxWaiting, MaxParents: maxParents, LiveEvents: true}, Limits: f.limits,
		Group: func(s place.Sender) string { return s.Host }, Shared: place.SharedSender, Watch: &f.watch, See: helptopic.Receiver,
	})
	if f.o.Journal {
		f.journal = newJournal(f)
	}
	f.ticking.Go(f.tick)
	return f
}

func orDefault[N int | int64](n, otherwise N) N {
	if n <= 0 {
		return otherwise
	}
	return n
}

// Take is a [Sink]. Its error matches [ErrLater] if memory is full, and
// [ErrUnsaved] if the journal cannot be written, or a file cannot be made and the cause
// may pass, such as a full disk.
func (f *Files) Take(_ context.Context, b *Batch) error {
	var errs []error
	r := request{pid: -1, body: b.Body, lost: f.watch.lost.Load()}
	written, lost := false, int64(0)
	for i := range b.Spans {
		rs := &b.Spans[i]
		n := int64(rs.Len)
		if n == 0 {
			continue
		}
		if f.o.Recorded != "" && rs.Resource.Text(AttrRecorded) == f.o.Recorded {
			f.recorded.Add(n)
			r.places = append(r.places, recorded{})
			continue
		}
		id := rs.Resource.Identity()
		if !id.PID.IsSet() && r.pid < 0 {
			if r.pid = 0; f.o.PID != nil && b.From != nil {
				r.pid = f.o.PID(b.From)
			}
		}
		at, err := f.take(place.SenderOf(&id, f.host, max(r.pid, 0)), rs)
		if errors.Is(err, place.ErrFull) {
			// Spans of the request that were accepted are recognized when they are sent
			// again.
			f.full.Add(1)
			return fmt.Errorf("%w: %w", ErrLater, err)
		}
		if err != nil {
			lost += n
			errs = append(errs, err)
		}
		written = written || len(at.ids) > 0
		r.places = append(r.places, at)
	}
	if f.journal != nil && written {
		if err := f.journal.append(&r, f.journal.number.Add(1)); err != nil {
			// If this process survives, the spans get into the files anyway; when they are
			// sent again they are recognized.
			return fmt.Errorf("%w: %w", ErrUnsaved, err)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	err := errors.Join(errs...)
	if !f.failing.Swap(true) && !f.o.replay && !errors.Is(err, place.ErrClosed) {
		f.o.Logger.Warn("OTLP receiver: cannot make a trace file", "dir", f.o.Dir, "error", err, "see", helptopic.File)
	}
	if fswrite.MayPass(err) {
		return unsavedError{err}
	}
	return &Rejected{Spans: lost, Err: err}
}

// unsavedError is an ErrUnsaved: files cannot be made for some spans.
type unsavedError struct{ error }

func (e unsavedError) Unwrap() error        { return e.error }
func (e unsavedError) Is(target error) bool { return target == ErrUnsaved || target == ErrLater }

// take writes the spans of one resource, and returns where they are.
func (f *Files) take(from place.Sender, rs *otlpspan.ResourceSpans) (at recorded, err error) {
	now := time.Now()
	err = f.with(from, rs, now, func(p *process, w *dftracer.Writer) {
		if p.shared {
			f.shared.Add(int64(rs.Len))
		}
		at = recorded{filepath.Base(w.Path()), p.take(rs, now)}
	})
	return at, err
}

// with calls fn with the file of a process, for the spans of a resource.
func (f *Files) with(from place.Sender, rs *otlpspan.ResourceSpans, now time.Time, fn func(p *process, w *dftracer.Writer)) error {
	err := f.store.With(from, now, func(s place.Sender) (place.Made, error) { return f.create(s, rs) },
		func(file *place.File[place.Sender]) error {
			p := &process{asm: file.Assembler, shared: file.Key != from,
				conv: otlpspan.Converter{Names: &file.Names, Limits: f.limits, Cut: file.Assembler.Cut}}
			if p.shared {
				p.conv.Sender = &from
			}
			fn(p, file.Writer)
			return nil
		})
	if errors.Is(err, place.ErrClosed) {
		return fmt.Errorf("otlpreceiver: %w", err)
	}
	return err
}

// tick writes spans that have waited long enough.
func (f *Files) tick() {
	ticker := time.NewTicker(orderWindow / 4)
	defer ticker.Stop()
	var full <-chan struct{}
	settled := func(at time.Time) bool { return f.store.Settle(context.Background(), at) }
	if f.journal != nil {
		full = f.journal.full
	}
	for {
		now := time.Now()
		select {
		case <-f.stop:
			return
		case <-full:
		case now = <-ticker.C:
			f.store.Tick(context.Background(), now)
		}
		if f.journal != nil {
			f.journal.tick(now, settled)
		}
	}
}

// Stats returns the current counts.
func (f *Files) Stats() FilesStats {
	c := f.watch.total()
	return FilesStats{
		Processes: f.watch.processes.Load(), Spans: c.Spans, Recorded: f.recorded.Load(), Duplicates: c.Duplicates, Lost: f.watch.lost.Load(),
		CutAttributes: c.Cut.Attributes, CutEvents: c.Cut.Events, CutLinks: c.Cut.Links, SharedLane: c.SharedLane,
		SharedFile: f.shared.Load(), Reopened: f.watch.reopened.Load(), Full: f.full.Load(),
	}
}

// Close completes the files, at most until the context ends. Afterwards nothing
// is accepted.
func (f *Files) Close(ctx context.Context) error {
	f.stops.Do(func() {
		close(f.stop)
		f.ticking.Wait()
		if err := f.store.Close(ctx); err != nil {
			f.err = fmt.Errorf("otlpreceiver: %w", err)
		}
		if f.journal != nil {
			f.journal.close(ctx.Done(), f.err == nil)
		}
	})
	return f.err
}

// create makes the file of a process.
func (f *Files) create(from place.Sender, rs *otlpspan.ResourceSpans) (place.Made, error) {
	res := rs.Resource
	if from == place.SharedSender {
		res = nil // the resource is another process's
	}
	o := dftracer.Options{Start: begin(rs), Heartbeat: -1, Pool: f.pool, Process: dftracer.Process{Attempt: f.o.Attempt, SessionTag: f.o.SessionTag, JobID: f.o.JobID}}
	id := res.Identity()
	from.Trace(&o, &id)
	path := filepath.Join(f.o.Dir, fileName(from))
	o.OnError = func(err error) {
		f.o.Logger.Warn("cannot write a trace file", "path", path, "error", err, "see", helptopic.File)
	}
	w, err := f.open(path, &o)
	if err != nil {
		return place.Made{}, fmt.Errorf("otlpreceiver: %w", err)
	}
	f.failing.Store(false)
	if f.made != nil {
		f.made(w.Path())
	}
	facts := place.Facts{Writer: w, Limit: f.limits.Attributes}
	for i := range res {
		switch res[i].Key {
		case "process.command_args", "process.command_line", "process.command", AttrRecorded:
		default:
			if facts.Room() {
				a := res[i].Arg()
				facts.Add(a.Key, a.Text())
			}
		}
	}
	return place.Made{Writer: w, TID: int64(from.PID), Cut: facts.End()}, nil
}

// begin returns the earliest start of some spans, or now.
func begin(rs *otlpspan.ResourceSpans) time.Time {
	var first uint64
	for s := range rs.Spans() {
		if s.Start != 0 && (first == 0 || s.Start < first) {
			first = s.Start
		}
	}
	if first == 0 {
		return time.Now()
	}
	return time.UnixMicro(otlpspan.Micros(first))
}

// watcher counts what the store of Files reports.
type watcher struct {
	log                       *slog.Logger
	processes, reopened, lost atomic.Int64

	mu     sync.Mutex
	counts place.Counts
}

var _ place.Watcher = (*watcher)(nil)

// Counted implements [place.Watcher].
func (w *watcher) Counted(c place.Counts, lost uint64) {
	w.lost.Add(int64(lost)) //nolint:gosec // lines
	w.mu.Lock()
	w.counts.Add(c)
	w.mu.Unlock()
}

// Opened counts files.
func (w *watcher) Opened(again bool) {
	if again {
		w.reopened.Add(1)
	} else {
		w.processes.Add(1)
	}
}

// Closed implements [place.Watcher].
func (*watcher) Closed() {}

// Outage implements [place.Watcher]; the writer logs outages itself.
func (*watcher) Outage() {}

// Log implements [place.Watcher].
func (w *watcher) Log(level slog.Level, message string, args ...any) {
	w.log.Log(context.Background(), level, "OTLP receiver: "+message, args...)
}

// total returns the counts of all files so far.
func (w *watcher) total() place.Counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts
}
