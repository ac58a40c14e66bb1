package telemetry

import (
	"fmt"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/config"
)

// fail applies the error strategy to a problem that a call met: the exporters
// get their telemetry data error, and either the caller gets the problem, or
// telemetry ends quietly. fn is the name of the call for the message.
func (r *Recorder) fail(fn string, problem error) error {
	r.mu.Lock()
	if r.ended != nil {
		r.mu.Unlock()
		return nil
	}
	r.stats.Errors++
	r.reportDataError(fmt.Sprintf("Exception in telemetry code when calling %s: %s", fn, errorText(problem)), nil)
	r.mu.Unlock()

	if r.strategy == config.DisableQuietly {
		r.log.Error("telemetry met a fatal error and is now disabled", "call", fn, "error", problem)
		r.disable()
		return nil
	}
	r.log.Error("telemetry error", "call", fn, "error", problem)
	return problem
}

// reportDataError tells every exporter, once, that the data is incomplete.
func (r *Recorder) reportDataError(message string, attrs []attributes.Attr) {
	r.stats.DataErrors++
	now := r.now()
	for _, s := range r.sinks {
		s.report(message, attrs, now, r.log)
	}
}

// disable switches telemetry off for good: what is open is stopped, what is
// held back is written, and every exporter is closed; in the background where
// something has to be sent over a network first.
func (r *Recorder) disable() {
	r.mu.Lock()
	already := r.ended != nil
	r.mu.Unlock()
	if already {
		return
	}
	if r.beforeStop != nil {
		r.beforeStop()
	}
	ctx, cancel := closing()
	defer cancel()
	if err := r.end(ctx, ErrDisabled); err != nil {
		r.log.Error("telemetry exporters failed to shut down", "error", err)
	}
	if r.onStop != nil {
		r.onStop()
	}
}
