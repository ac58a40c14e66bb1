package dftracerexporter

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"
)

// tracesExporter writes the files of all processes. The traces and the logs
// pipelines share one.
type tracesExporter struct {
	cfg    *Config
	log    *zap.Logger
	in     *instruments
	now    func() time.Time
	store  *store
	starts sync.Once
	stops  sync.Once
	stop   chan struct{}
	worker sync.WaitGroup
	err    error
}

func newTracesExporter(cfg *Config, set component.TelemetrySettings) (*tracesExporter, error) {
	in, err := newInstruments(set.MeterProvider)
	if err != nil {
		return nil, err
	}
	e := &tracesExporter{cfg: cfg, log: set.Logger, in: in, now: time.Now, stop: make(chan struct{})}
	e.store = newStore(cfg, set.Logger, in)
	return e, nil
}

// Start starts the goroutine that writes what has waited long enough. Files
// are made when their first span comes.
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
					e.store.tick(e.now())
				}
			}
		})
	})
	return nil
}

// Shutdown writes everything and completes the files.
func (e *tracesExporter) Shutdown(context.Context) error {
	e.stops.Do(func() {
		close(e.stop)
		e.worker.Wait()
		e.err = e.store.close()
	})
	return e.err
}

// pushTraces takes a batch. What could not be taken is in the error.
func (e *tracesExporter) pushTraces(_ context.Context, td ptrace.Traces) error {
	failed := ptrace.NewTraces()
	var errs []error
	now := e.now()
	for _, rs := range td.ResourceSpans().All() {
		if spansOf(rs) == 0 {
			continue
		}
		err := e.store.with(rs.Resource(), now, func(t *trace) {
			for _, ss := range rs.ScopeSpans().All() {
				scope := ss.Scope().Name()
				for _, src := range ss.Spans().All() {
					t.add(newSpan(src, scope, t.keys, e.cfg.TraceIDs), now)
				}
			}
			if e.cfg.OrderWindow == 0 {
				t.writeUntil(now)
			}
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

func spansOf(rs ptrace.ResourceSpans) (n int) {
	for _, ss := range rs.ScopeSpans().All() {
		n += ss.Spans().Len()
	}
	return n
}

// pushLogs takes the log records that are events of spans and leaves the others.
func (e *tracesExporter) pushLogs(ctx context.Context, ld plog.Logs) error {
	failed := plog.NewLogs()
	var errs []error
	var ignored int64
	now := e.now()
	for _, rl := range ld.ResourceLogs().All() {
		events := 0
		for _, sl := range rl.ScopeLogs().All() {
			for _, lr := range sl.LogRecords().All() {
				if isEvent(lr) {
					events++
				} else {
					ignored++
				}
			}
		}
		if events == 0 {
			continue
		}
		err := e.store.with(rl.Resource(), now, func(t *trace) {
			for _, sl := range rl.ScopeLogs().All() {
				for _, lr := range sl.LogRecords().All() {
					if isEvent(lr) {
						t.addLog(sl.Scope().Name(), lr)
					}
				}
			}
		})
		if err != nil {
			rl.CopyTo(failed.ResourceLogs().AppendEmpty())
			errs = append(errs, err)
		}
	}
	if ignored > 0 {
		e.in.ignored.Add(ctx, ignored)
	}
	if len(errs) == 0 {
		return nil
	}
	return consumererror.NewLogs(errors.Join(errs...), failed)
}

// facts writes what the resource says as metadata of the file, except for command
// lines, which can hold secrets.
func facts(t *trace, res pcommon.Resource) {
	for key, v := range res.Attributes().All() {
		switch key {
		case "process.command_args", "process.command_line", "process.command":
		default:
			t.w.CM(key, bounded(v.AsString()))
		}
	}
}
