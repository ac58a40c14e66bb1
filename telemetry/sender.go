package telemetry

import (
	"context"
	"fmt"
)

// Sender is what sends something else than spans to a backend: a native
// [Exporter], whose records it sends, or the meter provider given to
// WithMeterProvider. The provider finds out by itself whether they are one.
//
// It ends all of them and the span exporters side by side, within one deadline,
// before it closes what is local, so that trace files and local exporters can
// be told of every loss. Methods may be called concurrently.
type Sender interface {
	// ForceFlush sends what waits, until ctx is done.
	ForceFlush(ctx context.Context) error
	// Finish sends what waits and takes nothing more. It returns by the
	// deadline of ctx, and from then on Delivery does not change. It is called
	// once, and of exporters before Shutdown, which has nothing left to send.
	// It need not log what was lost: the provider does.
	Finish(ctx context.Context) error
	// Delivery gives the counts of this moment.
	Delivery() Delivery
}

// Delivery is what became of what a [Sender] was to send: log records, or
// exports of metrics. At every moment Total = Sent + Dropped + Pending.
type Delivery struct {
	Total   int64            // what was to be sent
	Sent    int64            // what the backend took
	Dropped int64            // what is lost, for the causes of Drops
	Pending int64            // what waits or is on its way
	Drops   map[string]int64 // by cause
	// Failed is the number of exports that failed, of metrics, which are
	// cumulative: a later one that succeeds makes up for it. Those for which
	// none did are Dropped.
	Failed int64
	// Unwanted tells that the backend does not know this kind of data at all,
	// as some that take spans only. Its drops are counted, and no reason to
	// warn anybody.
	Unwanted bool
}

// sendersOf are the exporters that send over a network.
func sendersOf(sinks []*sink) (all []Sender) {
	for _, s := range sinks {
		if sender, ok := s.exporter.(Sender); ok {
			all = append(all, sender)
		}
	}
	return all
}

// finishSender gives up waiting for a sender at the end of the context.
func finishSender(ctx context.Context, s Sender) error {
	return within(ctx, fmt.Sprintf("%T did not finish", s), func() error { return s.Finish(ctx) })
}
