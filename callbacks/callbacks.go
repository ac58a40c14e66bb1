package callbacks

import (
	"context"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/telemetry"
)

// The parameters of the callbacks. The zero value of each means "now", without
// further information.
type (
	// Start is the start of a span.
	Start = telemetry.Start
	// End is the end of a span.
	End = telemetry.End
	// TrainStart is the start of a training loop.
	TrainStart = telemetry.LoopStart
	// IterationEnd is the end of a training iteration.
	IterationEnd = telemetry.IterationEnd
	// SaveStart is the start of a checkpoint save.
	SaveStart = telemetry.SaveStart
	// SaveSuccess reports that a checkpoint is safely stored.
	SaveSuccess = telemetry.SaveSuccess
	// SaveFailure reports that a checkpoint could not be stored.
	SaveFailure = telemetry.SaveFailure
	// Finalization is the background part of an asynchronous save.
	Finalization = telemetry.Finalization
)

// Some returns an optional value, such as the loss of an iteration.
func Some[T any](v T) attributes.Opt[T] { return attributes.Some(v) }

// Callbacks are the callbacks of one provider. A nil Callbacks does nothing.
// All methods are safe for concurrent use. Each accepts at most one of its
// trailing parameters.
type Callbacks struct{ tel *telemetry.Provider }

// New returns the callbacks of a provider, which may be nil.
func New(tel *telemetry.Provider) *Callbacks { return &Callbacks{tel} }

// Default returns the callbacks of the process's current default provider.
func Default() *Callbacks { return &Callbacks{telemetry.Default()} }

func (c *Callbacks) provider() *telemetry.Provider {
	if c == nil {
		return nil
	}
	return c.tel
}

func (c *Callbacks) start(ctx context.Context, name string, start []Start) (context.Context, error) {
	r := c.provider().Recorder()
	if !r.Recording() || len(start) == 0 {
		return r.StartPhase(ctx, name)
	}
	return r.StartPhase(ctx, name, start[0])
}

func (c *Callbacks) end(name string, end []End) error {
	r := c.provider().Recorder()
	if !r.Recording() || len(end) == 0 {
		return r.EndPhase(name)
	}
	return r.EndPhase(name, end[0])
}

func first[T any](of []T) (zero T) {
	if len(of) > 0 {
		return of[0]
	}
	return zero
}
