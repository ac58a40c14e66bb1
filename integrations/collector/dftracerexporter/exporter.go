package dftracerexporter

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/integrations/collector/dftracerexporter/internal/metadata"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/internal/platform/identity"
	"github.com/trainspan/trainspan/internal/tracefile/place"
	"github.com/trainspan/trainspan/spans"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"
)

// tracesExporter writes the files of all processes. The traces pipeline and the
// logs pipeline share one.
type tracesExporter struct {
	cfg    *Config
	log    *zap.Logger
	in     *metadata.TelemetryBuilder
	now    func() time.Time
	pool   *dftracer.Pool
	store  *place.Store[place.Sender]
	starts sync.Once
	stops  sync.Once
	stop   chan struct{}
	work   context.Context // context of the worker
	abort  context.CancelFunc
	worker sync.WaitGroup
	err    error
}

func newTracesExporter(cfg *Config, set component.TelemetrySettings) (*tracesExporter, error) {
	in, err := metadata.NewTelemetryBuilder(set)
	if err != nil {
		return nil, err
	}
	e := &tracesExporter{cfg: cfg, log: set.Logger, in: in, now: time.Now, pool: dftracer.NewPool(), stop: make(chan struct{})}
	e.work, e.abort = context.WithCancel(context.Background())
	e.store = place.NewStore(place.StoreOptions[place.Sender]{
		MaxOpen: cfg.MaxOpenFiles, MaxProcesses: cfg.MaxProcesses, MaxFiles: cfg.MaxFilesPerHost, MaxBytes: cfg.MaxMemory,
		Complete: cfg.IdleTimeout, Window: cfg.OrderWindow, Limits: cfg.limits(),
		Assembler: place.Options{MaxWaiting: cfg.MaxWaitingSpans, MaxParents: cfg.MaxParents, TraceIDs: cfg.TraceIDs, LiveEvents: true},
		Group:     func(s place.Sender) string { return s.Host }, Shared: place.SharedSender,
		Watch: watcher{set.Logger, in}, See: helptopic.Collector,
	})
	// An alert needs the series before the first loss.
	for _, c := range []metric.Int64Counter{in.DftracerLostLines, in.DftracerFileOutages, in.DftracerUnfinishedSpans, in.DftracerRefusedBatches} {
		c.Add(context.Background(), 0)
	}
	return e, nil
}

// Start starts the goroutine that writes spans at the end of their wait. The
// exporter creates files with their first span.
func (e *tracesExporter) Start(context.Context, component.Host) error {
	e.starts.Do(func() {
		tick := min(max(e.cfg.OrderWindow/4, 50*time.Millisecond), time.Second)
		e.worker.Go(func() {
			ticker := time.NewTicker(tick)
			defer ticker.Stop()
			for {
				select {
				case <-e.stop:
					return
				case <-ticker.C:
					e.store.Tick(e.work, e.now())
				}
			}
		})
	})
	return nil
}

// Shutdown writes everything and completes the files. It returns when ctx ends;
// the error names the files that are not complete by then.
func (e *tracesExporter) Shutdown(ctx context.Context) error {
	e.stops.Do(func() {
		defer e.abort()
		defer context.AfterFunc(ctx, e.abort)()
		close(e.stop)
		e.worker.Wait()
		if err := e.store.Close(ctx); err != nil {
			e.err = fmt.Errorf("dftracer exporter: %w", err)
		}
		e.in.Shutdown()
	})
	return e.err
}

// pushTraces takes a batch. The error names what it could not take.
func (e *tracesExporter) pushTraces(ctx context.Context, td ptrace.Traces) error {
	failed := ptrace.NewTraces()
	var errs []error
	now := e.now()
	for _, rs := range td.ResourceSpans().All() {
		n, first := survey(rs)
		if n == 0 {
			continue
		}
		err := e.with(arrival{rs.Resource(), timeOf(first), now}, int64(n), func(t *trace) error {
			if !e.cfg.acknowledgesWritten() {
				t.addSpans(rs, now)
				if e.cfg.OrderWindow == 0 {
					t.asm.WriteAll()
				}
				return nil
			}
			// If the disk does not take the data now, the exporter does not buffer it
			// either.
			if err := t.file.Writer.FlushContext(ctx); err != nil {
				return err
			}
			t.addSpans(rs, now)
			t.asm.WriteAll()
			return t.file.Writer.FlushContext(ctx)
		})
		if err != nil {
			rs.CopyTo(failed.ResourceSpans().AppendEmpty())
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return consumererror.NewTraces(errors.Join(errs...), failed)
}

// with calls fn with the file of a process, which receives the given number of
// spans.
func (e *tracesExporter) with(a arrival, spans int64, fn func(*trace) error) error {
	who := identify(a.res.Attributes())
	id := place.SenderOf(&who, "", 0)
	err := e.store.With(id, a.now, func(s place.Sender) (place.Made, error) { return e.create(s, a) },
		func(f *place.File[place.Sender]) error {
			t := trace{cfg: e.cfg, id: id, file: f, asm: f.Assembler, names: &f.Names}
			err := fn(&t)
			add(e.in.DftracerFoldedSpans, t.folded)
			if t.shared() {
				add(e.in.DftracerSharedFileSpans, spans)
			}
			return err
		})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, place.ErrClosed):
		return errStopped
	case errors.Is(err, place.ErrFull):
		e.in.DftracerRefusedBatches.Add(context.Background(), 1)
	}
	return fmt.Errorf("dftracer exporter: %w", err)
}

// errStopped is the error for a batch that arrives after the shutdown.
var errStopped = errors.New("dftracer exporter: shut down")

// survey counts the spans of a resource and finds the earliest start, 0 if none has one.
func survey(rs ptrace.ResourceSpans) (n int, first pcommon.Timestamp) {
	for _, ss := range rs.ScopeSpans().All() {
		for _, s := range ss.Spans().All() {
			n++
			if at := s.StartTimestamp(); at != 0 && (first == 0 || at < first) {
				first = at
			}
		}
	}
	return n, first
}

// timeOf returns the time of a timestamp, zero for 0.
func timeOf(t pcommon.Timestamp) time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros(t))
}

// addSpans takes the spans of one resource.
func (t *trace) addSpans(rs ptrace.ResourceSpans, now time.Time) {
	var events []folded
	for _, ss := range rs.ScopeSpans().All() {
		scope := ss.Scope().Name()
		for _, src := range ss.Spans().All() {
			if f, ok := foldable(src, scope); ok && t.cfg.FoldOneLogger {
				events = append(events, f)
			} else {
				t.asm.Add(t.newSpan(src, scope), now)
			}
		}
	}
	// After the spans, because spans contain the same events.
	for i := range events {
		t.fold(&events[i])
	}
}

// pushLogs takes the log records that are events of spans and ignores the
// others.
func (e *tracesExporter) pushLogs(ctx context.Context, ld plog.Logs) error {
	failed := plog.NewLogs()
	var errs []error
	now := e.now()
	for _, rl := range ld.ResourceLogs().All() {
		events, first := e.surveyLogs(ctx, rl)
		if events == 0 {
			continue
		}
		err := e.with(arrival{rl.Resource(), timeOf(first), now}, 0, func(t *trace) error {
			for _, sl := range rl.ScopeLogs().All() {
				for _, lr := range sl.LogRecords().All() {
					if isEvent(lr) {
						t.addLog(sl.Scope().Name(), lr)
					}
				}
			}
			if e.cfg.acknowledgesWritten() {
				return t.file.Writer.FlushContext(ctx)
			}
			return nil
		})
		if err != nil {
			rl.CopyTo(failed.ResourceLogs().AppendEmpty())
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return consumererror.NewLogs(errors.Join(errs...), failed)
}

// surveyLogs counts the records that are events, and finds the earliest time.
func (e *tracesExporter) surveyLogs(ctx context.Context, rl plog.ResourceLogs) (events int, first pcommon.Timestamp) {
	var ignored int64
	for _, sl := range rl.ScopeLogs().All() {
		for _, lr := range sl.LogRecords().All() {
			if !isEvent(lr) {
				ignored++
				continue
			}
			events++
			if at := timestamp(lr); at != 0 && (first == 0 || at < first) {
				first = at
			}
		}
	}
	if ignored > 0 {
		e.in.DftracerIgnoredLogs.Add(ctx, ignored)
	}
	return events, first
}

// folded is a span that represents an event.
type folded struct {
	src         ptrace.Span
	scope       string
	event, span string // names
}

// foldable reports whether a span represents an event of its parent.
func foldable(src ptrace.Span, scope string) (f folded, ok bool) {
	f = folded{src: src, scope: scope}
	f.event, f.span, ok = place.Folded(scope, src.Name(), !src.ParentSpanID().IsEmpty(), src.EndTimestamp() > src.StartTimestamp(), src.Status().Code() == ptrace.StatusCodeError)
	return f, ok
}

// fold adds the event. The file needs the start event only while the span is
// open, for the name of the span.
func (t *trace) fold(f *folded) {
	key := keyOf(f.src.TraceID(), f.src.ParentSpanID())
	if f.event == spans.EventSpanStart {
		t.asm.Begin(key, place.Key{}, t.names.Find(f.scope, f.span, "", ""), micros(f.src.StartTimestamp()))
	}
	t.asm.AddEvent(key, t.newEvent(f.event, f.src.StartTimestamp(), f.src.Attributes(), f.src.DroppedAttributesCount()))
	t.folded++
}

// identify reads the process of the spans from their resource.
func identify(attrs pcommon.Map) identity.Identity {
	return identity.FromResource(func(key string) string { return text(attrs, key) })
}

// text returns the text of an attribute, empty if it is missing.
func text(attrs pcommon.Map, key string) string {
	v, ok := attrs.Get(key)
	if !ok {
		return ""
	}
	return v.AsString()
}

// pathOf returns the path of a process's file by the configured pattern.
func pathOf(s *place.Sender, directory, pattern string) string {
	name := strings.NewReplacer(
		"{host}", place.SafeName(s.Host), "{service}", place.SafeName(s.Service),
		"{pid}", strconv.Itoa(s.PID), "{rank}", strconv.Itoa(max(s.Rank, 0)),
	).Replace(pattern)
	return filepath.Join(directory, filepath.FromSlash(name))
}

// trace is a process and its file during a write.
type trace struct {
	cfg    *Config
	id     place.Sender // the process; the file may belong to several
	file   *place.File[place.Sender]
	asm    *place.Assembler
	names  *place.Names
	folded int64
}

// shared reports whether the file belongs to the processes above the limit.
func (t *trace) shared() bool { return t.file.Key != t.id }
