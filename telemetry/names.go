package telemetry

import (
	"context"

	"github.com/trainspan/trainspan/telemetry/outputs"
	"github.com/trainspan/trainspan/telemetry/recorder"
)

// What the engine is made of, under the names by which programs know it.
type (
	// Span is a handle of a span of the training run: End ends it,
	// defer EndErr(&err) ends it with the error of the function, Fail records
	// an error and leaves it open. A nil Span does nothing.
	Span = recorder.Span
	// Recorder starts and stops spans whose start and end are far apart.
	Recorder = recorder.Recorder

	// StartOption is a [Start], [LoopStart], [Epoch], [SaveStart] or
	// [Finalization].
	StartOption = recorder.StartOption
	// EndOption is an [End], [IterationEnd] or [Finalization].
	EndOption = recorder.EndOption

	// Start is when a span starts, and its attributes.
	Start = recorder.Start
	// End is when a span ends, and why it failed if it did.
	End = recorder.End
	// LoopStart is where a training loop starts: an option of spans.TrainingLoop.
	LoopStart = recorder.LoopStart
	// Epoch is the number of an epoch, from zero: an option of spans.Epoch.
	Epoch = recorder.Epoch
	// IterationEnd is the end of a training iteration, with its loss.
	IterationEnd = recorder.IterationEnd
	// SaveStart is the step that is saved: an option of spans.CheckpointSave.
	SaveStart = recorder.SaveStart
	// SaveSuccess is a checkpoint that is safely stored.
	SaveSuccess = recorder.SaveSuccess
	// SaveFailure is a checkpoint that could not be stored.
	SaveFailure = recorder.SaveFailure
	// Finalization is the background part of an asynchronous save: an option
	// of spans.CheckpointSaveFinalization.
	Finalization = recorder.Finalization
	// SpanStart is the start of a span of the program's own, with a parent.
	SpanStart = recorder.SpanStart
	// SpanStop is the stop of a span through the recorder.
	SpanStop = recorder.SpanStop

	// Output is a place that telemetry writes to.
	Output = outputs.Output
	// Identity says who writes: the process and its place in the job.
	Identity = outputs.Identity
	// Clock tells the time.
	Clock = outputs.Clock
	// ClockFunc makes a function a Clock.
	ClockFunc = outputs.ClockFunc
	// OutputHealth is what telemetry knows of an output for records.
	OutputHealth = outputHealth
)

// Errors that callers can test for.
var (
	// ErrClosed is returned by a recorder that was closed.
	ErrClosed = recorder.ErrClosed
	// ErrDisabled is why a provider records nothing that is off for this rank,
	// was disabled by force, or has switched itself off after an error. No
	// method returns it: that telemetry is off is no error.
	ErrDisabled = recorder.ErrDisabled
	// ErrNotConfigured is the answer of the nil provider and recorder.
	ErrNotConfigured = recorder.ErrNotConfigured
)

// FromContext returns the telemetry span that ctx carries, or nil.
func FromContext(ctx context.Context) *Span { return recorder.FromContext(ctx) }
