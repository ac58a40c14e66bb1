package telemetry

import "errors"

// Errors that callers can test for.
var (
	// ErrClosed is returned by a recorder that was closed.
	ErrClosed = errors.New("recorder is already closed")
	// errDisabled is why a provider records nothing that is off for this rank,
	// was disabled by force, or has switched itself off after an error. No
	// method returns it: that telemetry is off is no error.
	errDisabled = errors.New("telemetry is disabled")
	// errNotConfigured is the answer of the nil provider and recorder.
	errNotConfigured = errors.New("telemetry is not configured: call TrainingTelemetryBuilder.ConfigureProvider first")
)

// off turns "telemetry is disabled" into no error at all: it is what the user
// asked for, or was told before.
func off(err error) error {
	if err == errDisabled {
		return nil
	}
	return err
}

// silent hides that telemetry is off: to the training loop that is no error.
func silent(err error) error {
	if err == nil || errors.Is(err, ErrClosed) || errors.Is(err, errDisabled) || errors.Is(err, errNotConfigured) {
		return nil
	}
	return err
}

// What the reference says of calls at the wrong time.
var (
	errNotRunning  = errors.New("Cannot add an event to a span that is not running.")
	errTimerActive = errors.New("Cannot start timer since it is already active")
)
