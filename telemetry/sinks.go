package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/spans"
)

// maxFailures is how many failed exports, successes in between or not, make
// the recorder give an exporter up (the reference's number).
const maxFailures = 5

// sink is a native exporter with what is known of its health. Its fields are
// guarded by the recorder's lock.
type sink struct {
	exporter  Exporter
	failures  int
	delivered bool // something was exported successfully
	disabled  bool
	reported  bool // the one telemetry data error of this exporter was sent
	lastErr   error
}

// export hands one record to the exporter and applies the five-failure rule.
func (s *sink) export(r *Record, log *slog.Logger) {
	if s.disabled {
		return
	}
	err := guardExport(s.exporter, r)
	if err == nil {
		s.delivered = true
		return
	}
	s.failures++
	s.lastErr = err
	log.Error("telemetry exporter failed", "exporter", fmt.Sprintf("%T", s.exporter),
		"record", r.Kind.String(), "failures", s.failures, "error", err)
	if !s.reported {
		s.reported = true
		report := s.dataError(fmt.Sprintf("Error exporting a %s record: %s", r.Kind, errorText(err)), nil, r.Event.Time)
		if err := guardExport(s.exporter, &report); err != nil {
			log.Error("telemetry exporter could not take the report of its own failure", "error", err)
		} else {
			s.delivered = true
		}
	}
	if s.failures >= maxFailures {
		s.disabled = true
		log.Error("telemetry exporter given up", "exporter", fmt.Sprintf("%T", s.exporter), "failures", s.failures)
	}
}

// report sends the exporter its telemetry data error, if it had none yet.
func (s *sink) report(message string, attrs []attributes.Attr, now int64, log *slog.Logger) {
	if s.reported || s.disabled {
		return
	}
	s.reported = true
	r := s.dataError(message, attrs, now)
	s.export(&r, log)
}

func (s *sink) dataError(message string, attrs []attributes.Attr, now int64) Record {
	kind := attributes.NoTelemetryData
	if s.delivered {
		kind = attributes.IncompleteTelemetryData
	}
	all := append([]attributes.Attr{
		attributes.String(attributes.ErrorMessage, message),
		attributes.String(attributes.TelemetryDataErrorType, kind),
	}, attrs...)
	return Record{
		Kind:  KindDataError,
		Event: Event{Name: spans.EventTelemetryDataError, Time: now, Attributes: all},
	}
}

// guardExport turns a panic of an exporter into an error.
func guardExport(e Exporter, r *Record) error {
	return guarded(func() error { return e.Export(r) })
}

func shutdownSinks(ctx context.Context, sinks []*sink, log *slog.Logger) error {
	var errs []error
	for _, s := range sinks {
		if err := boundedShutdown(ctx, s.exporter); err != nil {
			log.Error("telemetry exporter failed to shut down", "exporter", fmt.Sprintf("%T", s.exporter), "error", err)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// boundedShutdown gives up waiting for an exporter at the end of the context.
func boundedShutdown(ctx context.Context, e Exporter) error {
	return within(ctx, fmt.Sprintf("exporter %T did not shut down", e), func() error { return e.Shutdown(ctx) })
}

// flushSinks makes the exporters that can write what they hold back.
func flushSinks(sinks []*sink, log *slog.Logger) error {
	var errs []error
	for _, s := range sinks {
		f, ok := s.exporter.(interface{ Flush() error })
		if !ok {
			continue
		}
		if err := guarded(f.Flush); err != nil {
			log.Error("telemetry exporter failed to write", "exporter", fmt.Sprintf("%T", s.exporter), "error", err)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
