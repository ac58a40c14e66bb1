package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// Shares of the time for the shutdown, in percent. A step that ends early leaves its
// time to the others.
const (
	untilSent    = 85 // spans and log records, concurrently
	untilMetrics = 90 // then the metrics, which report the delivery of these
	untilStopped = 50 // before the others: ending the open spans
	untilReturn  = 90 // of the time of an output, its own deadline, so that it can still count its losses
	untilDrained = 80 // of the time of an output, for its queued records
)

// End shuts down every output before the deadline of ctx, which must have one. It shuts
// down the network outputs first, concurrently. It then passes the result of losses,
// which counts what was lost there, to the local outputs and shuts these down. Later
// calls return the same result.
func (h *Hub) End(ctx context.Context, losses func() map[string]int64) error {
	h.ending.Do(func() {
		remote := h.endRemote(ctx)
		h.reportLosses(ctx, losses)
		h.err = errors.Join(remote, h.endAll(ctx, func(t outputs.Traits) bool { return !t.Remote }))
	})
	return h.err
}

// StopAll ends the open spans with stop. An output may delay stop, so StopAll waits for
// at most half of the remaining time.
func StopAll(ctx context.Context, stop func()) error {
	ctx, cancel := part(ctx, untilStopped)
	defer cancel()
	return runGuarded(ctx, "open spans were not ended", func() error {
		stop()
		return nil
	})
}

// reportLosses writes the losses to the local outputs that are not ordered,
// concurrently. Ordered outputs already got them as data errors. It uses at most half of
// the remaining time, so that a hanging output leaves the rest to the others.
func (h *Hub) reportLosses(ctx context.Context, losses func() map[string]int64) {
	telling, cancel := part(ctx, 50)
	defer cancel()
	_ = runGuarded(telling, "losses were not reported", func() error {
		lost := losses()
		if len(lost) == 0 {
			return nil
		}
		event := outputs.Event{Name: outputs.KindLosses.String(), Time: time.Now().UnixNano()}
		for _, what := range slices.Sorted(maps.Keys(lost)) {
			event.Attributes = append(event.Attributes, attrvalue.Int(what, lost[what]))
		}
		var wg sync.WaitGroup
		for _, a := range h.all {
			if !a.traits.Remote && !a.traits.Ordered {
				wg.Go(func() {
					a.write([]outputs.Record{{Kind: outputs.KindLosses, Event: event}})
				})
			}
		}
		wg.Wait()
		return nil
	})
}

// endRemote shuts down the network outputs. It sends metrics twice: concurrently with
// the others, because a slow backend might use up the time, and after them, to report
// their delivery.
func (h *Hub) endRemote(ctx context.Context) error {
	sending, cancel := part(ctx, untilSent)
	defer cancel()
	var metrics sync.WaitGroup
	for _, a := range h.all {
		if a.traits.Metrics {
			metrics.Go(func() { // Shutdown reports errors
				_ = runGuarded(sending, "metrics were not sent", func() error { return a.out.ForceFlush(sending) })
			})
		}
	}
	err := h.endAll(sending, func(t outputs.Traits) bool { return t.Remote && !t.Metrics })
	metrics.Wait()
	last, cancel := part(ctx, untilMetrics)
	defer cancel()
	return errors.Join(err, h.endAll(last, func(t outputs.Traits) bool { return t.Metrics }))
}

// endAll shuts down the outputs selected by meant, concurrently.
func (h *Hub) endAll(ctx context.Context, meant func(outputs.Traits) bool) error {
	errs := make([]error, len(h.all))
	var wg sync.WaitGroup
	for i, a := range h.all {
		if meant(a.traits) {
			wg.Go(func() { errs[i] = a.end(ctx) })
		}
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			h.log.Error("telemetry output failed to shut down", "output", fmt.Sprintf("%T", h.all[i].out), "network", h.all[i].traits.Remote, "error", err, "see", helptopic.OutputFails)
		}
	}
	return errors.Join(errs...)
}

func (a *attached) end(ctx context.Context) error {
	own, cancel := part(ctx, untilReturn)
	defer cancel()
	err := runGuarded(ctx, fmt.Sprintf("output %T did not shut down", a.out), func() error {
		return errors.Join(a.endQueue(own), a.out.Shutdown(own))
	})
	if a.queue != nil {
		a.queue.close()
		a.queue.abandon()
	}
	return err
}

// endQueue waits until the queued records are exported, and leaves the output time for
// its Shutdown.
func (a *attached) endQueue(ctx context.Context) error {
	q := a.queue
	if q == nil {
		return nil
	}
	waiting, cancel := part(ctx, untilDrained)
	defer cancel()
	err := q.wait(waiting)
	q.close()
	if err != nil {
		return fmt.Errorf("telemetry: an output did not accept %d records in time: %w", q.abandon(), err)
	}
	if q.done != nil {
		<-q.done
	}
	return nil
}

// Discard shuts down outputs that were never attached, concurrently.
func Discard(ctx context.Context, outs []outputs.Output) error {
	errs := make([]error, len(outs))
	var wg sync.WaitGroup
	for i, out := range outs {
		wg.Go(func() {
			errs[i] = runGuarded(ctx, fmt.Sprintf("output %T did not shut down", out), func() error { return out.Shutdown(ctx) })
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// part returns a context that ends after the given percentage of ctx's remaining time.
func part(ctx context.Context, percent int64) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end.Add(-time.Until(end)*time.Duration(100-percent)/100))
}
