package otlpreceiver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// DefaultMaxProcesses is how many processes have a file.
const DefaultMaxProcesses = 512

// AttrRecorded is an attribute of resources: the value of FilesOptions.Recorded
// says that the process writes trace files into the same directory by itself.
const AttrRecorded = "trainspan.recorded"

// FilesOptions configures Files.
type FilesOptions struct {
	// Dir is where the files go, one for each process. It must exist.
	Dir string
	// SessionTag, JobID and Attempt say to which job the processes belong, where
	// their resources do not. Attempt counts from zero; nil is unknown.
	SessionTag, JobID string
	Attempt           *int
	// Recorded is the value of [AttrRecorded] of processes whose spans are in
	// files of their own and are left out here. Empty leaves out none.
	Recorded string
	// PID finds the process at the other end of a connection, for spans that do
	// not say whose they are. Nil, and a result of 0, is unknown.
	PID func(net.Addr) int
	// MaxProcesses bounds the files; 0 is 512. Spans of more processes are
	// rejected.
	MaxProcesses int
	// Logger gets outages of files; nil is slog.Default.
	Logger *slog.Logger
}

// FilesStats counts since the start.
type FilesStats struct {
	Processes  int64 // that have a file
	Spans      int64 // in the files
	Recorded   int64 // left out: their processes write them
	Duplicates int64 // left out: they came before
	Lost       int64 // lines that the disk did not take
}

// Files writes received spans as trace files. It is safe for concurrent use.
type Files struct {
	o    FilesOptions
	host string

	mu     sync.Mutex
	procs  map[identity]*process
	closed bool

	stop     chan struct{}
	ticking  sync.WaitGroup
	recorded atomic.Int64
}

// orderWindow is how long a span waits for its parent, which ends later.
const orderWindow = 2 * time.Second

// NewFiles makes Files that no process has a file in yet.
func NewFiles(options *FilesOptions) *Files {
	f := &Files{o: *options, procs: make(map[identity]*process), stop: make(chan struct{})}
	if f.o.MaxProcesses <= 0 {
		f.o.MaxProcesses = DefaultMaxProcesses
	}
	if f.o.Logger == nil {
		f.o.Logger = slog.Default()
	}
	if f.host, _ = os.Hostname(); f.host == "" {
		f.host = "localhost"
	}
	f.ticking.Go(f.tick)
	return f
}

// Take is a [Sink].
func (f *Files) Take(_ context.Context, from net.Addr, spans []*tracepb.ResourceSpans) error {
	var errs []error
	pid := -1
	for _, rs := range spans {
		if count([]*tracepb.ResourceSpans{rs}) == 0 {
			continue
		}
		res := attrs(rs.GetResource().GetAttributes())
		if f.Recorded(rs) {
			f.recorded.Add(int64(count([]*tracepb.ResourceSpans{rs})))
			continue
		}
		if _, known := res.number("process.pid"); !known && pid < 0 {
			if pid = 0; f.o.PID != nil && from != nil {
				pid = f.o.PID(from)
			}
		}
		p, err := f.process(identify(res, f.host, max(pid, 0)))
		if err == nil {
			err = p.take(f, rs)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Recorded reports whether spans are of a process that writes files itself.
func (f *Files) Recorded(rs *tracepb.ResourceSpans) bool {
	return f.o.Recorded != "" && attrs(rs.GetResource().GetAttributes()).text(AttrRecorded) == f.o.Recorded
}

// process finds a process or makes it.
func (f *Files) process(id identity) (*process, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, errors.New("otlpreceiver: the files are complete")
	}
	p := f.procs[id]
	if p == nil {
		if len(f.procs) >= f.o.MaxProcesses {
			return nil, fmt.Errorf("otlpreceiver: %d processes have files, which is the limit", len(f.procs))
		}
		p = &process{id: id, path: filepath.Join(f.o.Dir, id.fileName())}
		f.procs[id] = p
	}
	return p, nil
}

func (f *Files) all() []*process {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]*process, 0, len(f.procs))
	for _, p := range f.procs {
		list = append(list, p)
	}
	return list
}

// tick writes what has waited long enough.
func (f *Files) tick() {
	ticker := time.NewTicker(orderWindow / 4)
	defer ticker.Stop()
	for {
		select {
		case <-f.stop:
			return
		case now := <-ticker.C:
			for _, p := range f.all() {
				p.settle(now.Add(-orderWindow))
			}
		}
	}
}

// Stats gives the counts of this moment.
func (f *Files) Stats() FilesStats {
	st := FilesStats{Recorded: f.recorded.Load()}
	for _, p := range f.all() {
		p.add(&st)
	}
	return st
}

// Close completes the files, at the latest with the context. It takes nothing
// any more.
func (f *Files) Close(ctx context.Context) error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	f.mu.Unlock()
	close(f.stop)
	f.ticking.Wait()
	var errs []error
	for _, p := range f.all() {
		errs = append(errs, p.close(ctx))
	}
	return errors.Join(errs...)
}
