package pfw

import (
	"cmp"
	"context"
	"strconv"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/internal/see"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// Attach implements outputs.Output. An exporter that a telemetry builder is
// given, by whichever of its methods, is the trace file of this process: it
// opens the file, for the rank and attempt that telemetry knows, and then sees
// spans, events and scopes as they happen, as a [Processor] does.
func (e *Exporter) Attach(ctx context.Context, t *outputs.Telemetry) (outputs.Wants, error) {
	if e == nil {
		return outputs.Wants{}, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.w
	if w == nil || e.path != "" { // a builder that was corrected attaches again
		var err error
		trace := e.opts.traceFor(t)
		if w, err = dftracer.Create(e.path, trace); err != nil {
			return outputs.Wants{}, err
		}
		if len(e.opts.Cores) > 0 {
			dft.WriteCores(w, e.opts.Cores)
		}
		dft.WriteCustom(w, dft.KeyFlushInterval, strconv.FormatInt(cmp.Or(trace.FlushInterval, dftracer.DefaultFlushInterval).Microseconds(), 10))
	}
	e.use(w)
	e.closed, e.err = false, nil
	opts := e.opts
	opts.Writer = w
	e.live = newProcessor(opts)
	return e.live.Attach(ctx, t)
}

// traceFor are the options of the writer with what telemetry knows; what the
// program has set wins.
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
		trace.Process.WorldSize = cmp.Or(trace.Process.WorldSize, id.WorldSize)
	}
	trace.Process.JobID = cmp.Or(trace.Process.JobID, id.Job)
	trace.Process.SessionTag = cmp.Or(trace.Process.SessionTag, id.SessionTag)
	trace.Process.PID = cmp.Or(trace.Process.PID, id.PID)
	trace.Process.Host = cmp.Or(trace.Process.Host, id.Host)
	if trace.OnError == nil && t.Logger != nil {
		trace.OnError = func(err error) { t.Logger.Warn("telemetry: trace file", "error", err, "see", see.File) }
	}
	if trace.OnPath == nil && t.Logger != nil {
		trace.OnPath = func(path string) { t.Logger.Info("telemetry: the trace goes to another file", "path", path) }
	}
	if trace.Now == nil && t.Clock != nil {
		trace.Now = t.Clock
	}
	return &trace
}

// Path is the file that is written, or was written before Shutdown; before the
// exporter is attached or gets spans it is the path given to New.
func (e *Exporter) Path() string {
	if w := e.Writer(); w != nil {
		return w.Path()
	}
	if e == nil {
		return ""
	}
	return e.path
}

// Writer is the writer behind the exporter, nil while there is none.
func (e *Exporter) Writer() *dftracer.Writer {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.live != nil {
		return e.live.Writer()
	}
	return e.w
}

// ForceFlush implements outputs.Output: what was written so far is in the file
// when it returns.
func (e *Exporter) ForceFlush(ctx context.Context) error {
	if e != nil && e.live != nil {
		e.live.files.flush(0)
	}
	return e.Writer().FlushContext(ctx)
}
