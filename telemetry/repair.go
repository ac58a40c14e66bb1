package telemetry

import (
	"errors"
	"slices"
	"sync/atomic"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/record/failure"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"go.opentelemetry.io/otel/attribute"
)

// maxAttributes bounds the attributes of a span: one that lives for weeks must
// not grow without end.
const maxAttributes = 512

// repairs make of what the program says what all outputs can take, and count
// what had to be changed or left out.
type repairs struct{ values atomic.Int64 }

// clean repairs attribute values that an output could not take.
func (r *repairs) clean(attrs []attributes.Attr) []attributes.Attr {
	attrs, repaired := attrvalue.Clean(attrs)
	if repaired > 0 {
		r.values.Add(int64(repaired))
	}
	return attrs
}

// cleanCopy is clean for a slice that stays the caller's. Of a key that comes
// twice the last value counts, in the place of the first.
func (r *repairs) cleanCopy(attrs []attributes.Attr) []attributes.Attr {
	if len(attrs) == 0 {
		return nil
	}
	// Cleaned first: two keys may be equal once they are repaired.
	all := r.clean(slices.Clone(attrs))
	own := all[:0]
next:
	for _, a := range all {
		for i := range own {
			if own[i].Key == a.Key {
				own[i] = a
				continue next
			}
		}
		if len(own) == maxAttributes {
			r.values.Add(1)
			continue
		}
		own = append(own, a)
	}
	return own
}

// describe describes an error for the records, nil for none.
func (r *repairs) describe(err error, skip int) *failure.Failure {
	f := failure.Describe(err, skip+1)
	if f != nil {
		f.Attrs = r.clean(f.Attrs)
	}
	return f
}

// withExtra adds the program's attributes of an error, as many as a span keeps;
// what is left out counts as a repaired value. Those with a key of ours get the
// prefix "user_".
func (r *repairs) withExtra(attrs []attributes.Attr, extra []attribute.KeyValue) []attributes.Attr {
	for _, a := range r.cleanCopy(attributes.From(extra...)) {
		if len(attrs) >= maxAttributes {
			r.values.Add(1)
			continue
		}
		for a.Key == onelogger.ErrorMessage || has(attrs, a.Key) {
			a.Key = "user_" + a.Key
		}
		attrs = append(attrs, a)
	}
	return attrs
}

func has(attrs []attributes.Attr, key attribute.Key) bool {
	for i := range attrs {
		if attrs[i].Key == key {
			return true
		}
	}
	return false
}

// upsert sets an attribute. A known key keeps its place. The slice that was
// there before stays as it is, because records may refer to it; appending is
// beyond their ends.
func upsert(attrs []attributes.Attr, a attributes.Attr) []attributes.Attr {
	for i := range attrs {
		if attrs[i].Key == a.Key {
			own := append(make([]attributes.Attr, 0, cap(attrs)), attrs...)
			own[i] = a
			return own
		}
	}
	return append(attrs, a)
}

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

// ignoreOff turns "telemetry is disabled" into no error at all: it is what the user
// asked for, or was told before.
func ignoreOff(err error) error {
	if errors.Is(err, errDisabled) {
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
