package pfw

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// Open implements outputs.Output. An exporter that is passed to a telemetry builder, by
// any of its methods, is the trace file of this process. Open creates the file for the
// rank and attempt that telemetry knows. The exporter then receives spans, events and
// scopes as they happen, like a [Processor]. An exporter that is open returns an error.
func (e *Exporter) Open(ctx context.Context, t *outputs.Telemetry) (outputs.Traits, error) {
	if e == nil {
		return outputs.Traits{}, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.live != nil && !e.closed { // a corrected builder has shut it down
		return outputs.Traits{}, errors.New("pfw: the exporter is already open: create one per builder")
	}
	if err := e.open(t, nil); err != nil {
		return outputs.Traits{}, err
	}
	e.closed, e.err = false, nil
	return e.live.Open(ctx, t)
}

// traceFor returns the options of the writer, completed with what telemetry knows.
// Values that the program has set take precedence.
func (o *Options) traceFor(t *outputs.Telemetry) *dftracer.Options {
	var trace dftracer.Options
	if o.Trace != nil {
		trace = *o.Trace
	}
	id := &t.Identity
	if trace.Process.Rank == nil && id.Rank.IsSet() {
		rank := id.Rank.Get()
		trace.Process.Rank = &rank
	}
	if trace.Process.Attempt == nil && id.Attempt.IsSet() {
		attempt := id.Attempt.Get()
		trace.Process.Attempt = &attempt
	}
	if id.RankKnown {
		trace.Process.WorldSize = cmp.Or(trace.Process.WorldSize, id.WorldSize.Or(0))
	}
	trace.Process.JobID = cmp.Or(trace.Process.JobID, id.Job)
	trace.Process.SessionTag = cmp.Or(trace.Process.SessionTag, id.SessionTag)
	trace.Process.PID = cmp.Or(trace.Process.PID, id.PID)
	trace.Process.Host = cmp.Or(trace.Process.Host, id.Host)
	log := func() *slog.Logger { return cmp.Or(t.Logger, slog.Default()) }
	if trace.OnError == nil {
		trace.OnError = func(err error) {
			log().Warn("telemetry cannot write the trace file", "error", err, "see", helptopic.File)
		}
	}
	if trace.OnPath == nil {
		trace.OnPath = func(path string) { log().Info("telemetry writes the trace to another file", "path", path) }
	}
	if trace.Now == nil && t.Clock != nil {
		trace.Now = t.Clock
	}
	return &trace
}

// Path returns the path of the file, also after Shutdown. Before the exporter is
// attached or gets spans, it is the path given to [New].
func (e *Exporter) Path() string {
	if w := e.Writer(); w != nil {
		return w.Path()
	}
	if e == nil {
		return ""
	}
	return e.path
}

// Writer returns the underlying writer, or nil before the file is open.
func (e *Exporter) Writer() *dftracer.Writer {
	if e == nil {
		return nil
	}
	if p := e.opened(); p != nil {
		return p.Writer()
	}
	return e.opts.Writer
}

// ForceFlush implements outputs.Output. When it returns, everything written before is in
// the file.
func (e *Exporter) ForceFlush(ctx context.Context) error { return e.opened().ForceFlush(ctx) }

// watcher writes begin records for spans and scopes that stay open for long. The zero
// value does nothing.
type watcher struct {
	stop chan struct{}
	done sync.WaitGroup
}

func (w *watcher) start(d *traceWriter, files *fileLog) {
	w.stop = make(chan struct{})
	w.done.Go(func() {
		t := time.NewTicker(max(d.opts.BeginAfter/2, time.Millisecond))
		defer t.Stop()
		for {
			select {
			case <-w.stop:
				return
			case <-t.C:
				d.beginOld(d.clock.now() - d.opts.BeginAfter.Microseconds())
				files.flush(d.clock.now() / 1e6)
			}
		}
	})
}

func (w *watcher) end() {
	if w.stop != nil {
		close(w.stop)
		w.done.Wait()
	}
}

// left is an open span or scope that a shutdown ends.
type left struct {
	*open
	write   func(end int64)
	pending func() bool // reports whether another goroutine is ending it and has not written it
	depth   int
}

// truncate writes the open spans and scopes as truncated.
func (d *traceWriter) truncate() {
	all := d.openScopes() // registered since endScopes
	for _, e := range d.open.allSpans() {
		all = append(all, left{
			open: &e.open, depth: e.level(), pending: func() bool { return d.open.holdsSpan(e) },
			write: func(end int64) { d.write(e, e.span, end, true) },
		})
	}
	d.end(all)
}

// endScopes ends the open scopes.
func (d *traceWriter) endScopes() { d.end(d.openScopes()) }

func (d *traceWriter) openScopes() []left {
	var all []left
	for _, sc := range d.open.allScopes() {
		all = append(all, left{
			open: &sc.open, depth: sc.level(), pending: func() bool { return d.open.holds(sc) },
			write: func(end int64) {
				d.writeScope(sc, end, true)
				d.truncated.Add(1)
			},
		})
	}
	return all
}

// patienceForChildren bounds the wait for children that other goroutines are ending.
const patienceForChildren = 100 * time.Millisecond

// end ends all, children first. It waits for a child that another goroutine is ending,
// so that the child keeps its parent.
func (d *traceWriter) end(all []left) {
	slices.SortFunc(all, func(a, b left) int {
		return cmp.Or(cmp.Compare(b.depth, a.depth), cmp.Compare(b.id, a.id))
	})
	now := d.clock.now()
	deadline := time.Now().Add(patienceForChildren)
	for _, l := range all {
		if l.finish(&d.beginning) {
			l.write(now)
			continue
		}
		for l.pending() && time.Now().Before(deadline) {
			time.Sleep(10 * time.Microsecond)
		}
	}
}

// patience bounds the wait in settled if ctx has no deadline.
const patience = 10 * time.Second

// settled waits for spans and scopes that other goroutines are writing, because their
// children may already be in the file.
func (d *traceWriter) settled(ctx context.Context) {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for wait := 10 * time.Microsecond; len(d.open.allSpans())+len(d.open.allScopes()) > 0; wait = min(2*wait, time.Millisecond) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}
