package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/trainspan/trainspan/telemetry/outputs"
)

// Parts of the time for the end, in percent of it. What ends early leaves its
// time to the others.
const (
	untilSent    = 85 // for spans and log records, side by side
	untilMetrics = 90 // then for the metrics that say what became of these
)

// End ends, once, every output before the deadline of ctx, which it must have:
// first what goes over a network, side by side; then, after losses has said
// what was lost there, what is local. Later calls give the same result.
func (h *Hub) End(ctx context.Context, losses func() outputs.Losses) error {
	h.ending.Do(func() {
		remote := h.endRemote(ctx)
		if lost := losses(); len(lost) > 0 {
			for _, a := range h.all {
				if !a.wants.Network {
					_ = within(ctx, "losses were not reported", func() error { a.out.ReportLosses(lost); return nil })
				}
			}
		}
		h.err = errors.Join(remote, h.endAll(ctx, func(w outputs.Wants) bool { return !w.Network }))
	})
	return h.err
}

// endRemote ends what goes over the network. Metrics are sent twice: beside
// the rest, since a slow backend might use up the time, and after it, to say
// what became of the rest.
func (h *Hub) endRemote(ctx context.Context) error {
	sending, cancel := part(ctx, untilSent)
	defer cancel()
	var metrics sync.WaitGroup
	for _, a := range h.all {
		if a.wants.Metrics {
			metrics.Go(func() { // End says how it went
				_ = within(sending, "metrics were not sent", func() error { return a.out.ForceFlush(sending) })
			})
		}
	}
	err := h.endAll(sending, func(w outputs.Wants) bool { return w.Network && !w.Metrics })
	metrics.Wait()
	last, cancel := part(ctx, untilMetrics)
	defer cancel()
	return errors.Join(err, h.endAll(last, func(w outputs.Wants) bool { return w.Metrics }))
}

// endAll ends the outputs that are meant side by side.
func (h *Hub) endAll(ctx context.Context, meant func(outputs.Wants) bool) error {
	errs := make([]error, len(h.all))
	var wg sync.WaitGroup
	for i, a := range h.all {
		if meant(a.wants) {
			wg.Go(func() { errs[i] = a.end(ctx) })
		}
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			h.log.Error("telemetry output failed to shut down", "output", fmt.Sprintf("%T", h.all[i].out), "error", err)
		}
	}
	return errors.Join(errs...)
}

func (a *attached) end(ctx context.Context) error {
	err := within(ctx, fmt.Sprintf("output %T did not shut down", a.out), func() error {
		if q := a.queue; q != nil {
			_ = q.wait(ctx) // what is left is counted below
			q.close()
			if q.done != nil {
				<-q.done
			}
		}
		return a.out.Shutdown(ctx)
	})
	if a.queue != nil {
		a.queue.close()
		a.queue.abandon()
	}
	return err
}

// part gives a context that ends when so many percent of the time are over.
func part(ctx context.Context, percent int64) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end.Add(-time.Until(end)*time.Duration(100-percent)/100))
}
