package telemetry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/trainspan/trainspan/internal/active"
)

// Parts of the time for the shutdown, in percent of it. What ends early leaves
// its time to the others.
const (
	untilSent    = 85 // for spans, log records and metrics, side by side
	untilMetrics = 90 // then for the metrics that tell what became of these
)

// Shutdown stops the spans that are still open, writes and sends everything,
// and closes every exporter. It takes at most the shutdown timeout, even if
// ctx is cancelled already or a backend does not answer. Later and concurrent
// calls give the same result; callbacks after it do nothing.
func (p *Provider) Shutdown(ctx context.Context) error {
	if p == nil {
		return nil
	}
	return p.life.end(func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.timeout)
		defer cancel()
		if p.sdk != nil {
			active.Leave()
		}
		p.cutScopes()
		p.rec.stopAll(ErrClosed)
		return errors.Join(p.finish(ctx), p.rec.meters.close())
	})
}

// finish ends, once, all that the spans went to: first what goes over the
// network, side by side; then, told of what was lost there, the local files.
func (p *Provider) finish(ctx context.Context) error {
	return p.down.end(func() error {
		ctx, cancel := context.WithTimeout(ctx, p.timeout)
		defer cancel()
		if p.sdk == nil {
			return p.finishUnused(ctx)
		}
		p.stopRotation()
		remote := p.finishRemote(ctx)
		p.tellLosses()
		local := p.sdk.Shutdown(ctx)
		return errors.Join(remote, local, p.rec.closeSinks(ctx))
	})
}

// finishUnused closes what a rank was given that is off.
func (p *Provider) finishUnused(ctx context.Context) error {
	var errs []error
	for _, sp := range p.processors {
		errs = append(errs, sp.Shutdown(ctx))
	}
	for _, e := range p.unused {
		errs = append(errs, e.Shutdown(ctx))
	}
	if p.metrics != nil {
		errs = append(errs, finishSender(ctx, p.metrics))
	}
	return errors.Join(errs...)
}

// finishRemote ends what goes over the network. Metrics are sent twice: beside
// the rest, since a slow backend might use up the time, and after it, to tell
// what became of the rest.
func (p *Provider) finishRemote(ctx context.Context) error {
	sending, cancel := p.part(ctx, untilSent)
	defer cancel()
	errs := make([]error, len(p.filters)+len(p.senders)+1)
	var wg sync.WaitGroup
	for i, f := range p.filters {
		wg.Go(func() { errs[i] = f.Shutdown(sending) })
	}
	for i, s := range p.senders {
		wg.Go(func() { errs[len(p.filters)+i] = finishSender(sending, s) })
	}
	if p.metrics == nil {
		wg.Wait()
		return errors.Join(errs...)
	}
	wg.Go(func() {
		_ = within(sending, "metrics were not sent", func() error { return p.metrics.ForceFlush(sending) }) // Finish says how it went
	})
	wg.Wait()
	last, cancel := p.part(ctx, untilMetrics)
	defer cancel()
	errs[len(errs)-1] = finishSender(last, p.metrics)
	return errors.Join(errs...)
}

// part gives a context that ends when so many percent of the time are over.
func (p *Provider) part(ctx context.Context, percent int64) (context.Context, context.CancelFunc) {
	end, _ := ctx.Deadline()
	return context.WithDeadline(ctx, end.Add(-p.timeout*time.Duration(100-percent)/100))
}

// within runs f, guarded, and waits for it until the end of the context: a
// disk or a network that hangs must not keep a job from ending.
func within(ctx context.Context, failure string, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- guarded(f) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		select {
		case err := <-done: // it made it, just
			return err
		default:
			return fmt.Errorf("telemetry: %s in time: %w", failure, ctx.Err())
		}
	}
}

// guarded turns a panic of f into an error.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("exporter panicked: %v", p)
		}
	}()
	return f()
}
