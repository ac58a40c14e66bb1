package delivery

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// pauses determines the growing pauses between the attempts for one batch,
// until their time is over.
type pauses struct {
	next  backoff.ExponentialBackOff
	until time.Time
	last  bool // the next attempt is the last one
}

func newPauses(o *Options) *pauses {
	p := &pauses{
		next: backoff.ExponentialBackOff{
			InitialInterval:     o.RetryFirst,
			RandomizationFactor: backoff.DefaultRandomizationFactor,
			Multiplier:          2,
			MaxInterval:         o.RetryMost,
		},
		until: time.Now().Add(o.RetryFor),
		last:  o.RetryFor < 0,
	}
	p.next.Reset()
	return p
}

// wait pauses for as long as the error asks, or longer each time, and less if
// hurry is closed. It reports whether another attempt is due.
func (p *pauses) wait(ctx context.Context, e *Error, hurry <-chan struct{}) bool {
	d := p.next.NextBackOff()
	if e.After > 0 {
		d = e.After
	}
	if time.Now().Add(d).After(p.until) {
		return false
	}
	return sleep(ctx, d, hurry)
}

// outlives reports whether a batch is retried after a pause that the backend
// asked for: at least once, however long that pause is.
func (p *pauses) outlives(d time.Duration) bool {
	if p.last {
		return false
	}
	p.last = time.Now().Add(d).After(p.until)
	return true
}

// sleep waits for d, or until hurry is closed or ctx is done. It reports
// whether ctx is not done.
func sleep(ctx context.Context, d time.Duration, hurry <-chan struct{}) bool {
	if ctx.Err() != nil {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-hurry:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// Retry calls f until it succeeds, fails permanently, or the time for retries
// is over. Zero fields of o mean the defaults. It returns the last error of f.
func Retry(ctx context.Context, o Options, f func(context.Context) error) error {
	o = o.withDefaults()
	p := newPauses(&o)
	for {
		err := f(ctx)
		if err == nil {
			return nil
		}
		if e := judge(ctx, err); !e.Retry || !p.wait(ctx, e, nil) {
			return err
		}
	}
}

// Patient returns an exporter for programs that wait for each batch: it retries
// a batch for as long as to sets, and in halves if it is too large. Once a
// backend has been unreachable for all of that time, later batches fail at
// once.
func Patient(to Tuner) sdktrace.SpanExporter { return &patient{Tuner: to, o: to.Delivery()} }

type patient struct {
	Tuner
	o    Options
	away error
}

// ExportSpans implements sdktrace.SpanExporter.
func (p *patient) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	if p.away != nil {
		return p.away
	}
	err := Retry(ctx, p.o, func(ctx context.Context) error { return p.Tuner.ExportSpans(ctx, batch) })
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	if half := len(batch) / 2; e.TooLarge && half > 0 {
		return errors.Join(p.ExportSpans(ctx, batch[:half]), p.ExportSpans(ctx, batch[half:]))
	}
	if e.Retry && ctx.Err() == nil {
		p.away = err
	}
	return err
}
