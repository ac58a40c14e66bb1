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

// maxAttributes bounds the attributes of a span, which may live for weeks.
const maxAttributes = 512

// repairs converts the program's values to values that all outputs accept, and
// counts what was changed or left out.
type repairs struct{ values atomic.Int64 }

// clean repairs attribute values that an output could not accept.
func (r *repairs) clean(attrs []attributes.Attr) []attributes.Attr {
	attrs, repaired := attrvalue.Clean(attrs)
	if repaired > 0 {
		r.values.Add(int64(repaired))
	}
	return attrs
}

// cleanCopy is clean for a slice that the caller keeps. If a key occurs twice,
// the last value is used, in the place of the first.
func (r *repairs) cleanCopy(attrs []attributes.Attr) []attributes.Attr {
	if len(attrs) == 0 {
		return nil
	}
	// Cleaned first, because two keys may be equal after their repair.
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

// withoutSecrets is cleanCopy for the attributes of an event: the texts of an exception may
// have secrets.
func (r *repairs) withoutSecrets(attrs []attributes.Attr) []attributes.Attr {
	attrs = r.cleanCopy(attrs)
	for i := range attrs {
		if key := attrs[i].Key; key == "exception.message" || key == "exception.stacktrace" {
			attrs[i] = attrvalue.String(string(key), failure.Clean(attrs[i].Value.String()))
		}
	}
	return attrs
}

// describe describes an error for the records; nil stays nil.
func (r *repairs) describe(err error, skip int) *failure.Failure {
	f := failure.Describe(err, skip+1)
	if f != nil {
		f.Attrs = r.clean(f.Attrs)
	}
	return f
}

// withExtra adds the program's attributes of an error, within the limit of a
// span; those left out count as repaired values. Attributes with a key of ours
// get the prefix "user_".
func (r *repairs) withExtra(attrs []attributes.Attr, extra []attribute.KeyValue) []attributes.Attr {
	for _, a := range r.withoutSecrets(attributes.From(extra...)) {
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

// upsert sets an attribute. An existing key keeps its place. The old slice does
// not change within its length, because records may refer to it; appending is
// safe.
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
	// errDisabled is why a provider records nothing that is off for this rank, was
	// disabled by ForceDisable, or has switched itself off after an error. No
	// method returns it, because disabled telemetry is not an error.
	errDisabled = errors.New("telemetry is disabled")
	// errNotConfigured is the error of the nil provider and recorder.
	errNotConfigured = errors.New("telemetry is not configured: call TrainingTelemetryBuilder.ConfigureProvider first")
)

// ignoreOff returns nil for errDisabled: the user asked for it, or was warned
// before.
func ignoreOff(err error) error {
	if errors.Is(err, errDisabled) {
		return nil
	}
	return err
}

// silent returns nil for errDisabled, which is not an error for the training
// loop.
func silent(err error) error {
	if err == nil || errors.Is(err, ErrClosed) || errors.Is(err, errDisabled) || errors.Is(err, errNotConfigured) {
		return nil
	}
	return err
}

// one-logger's messages for calls at the wrong time.
var (
	errNotRunning  = errors.New("Cannot add an event to a span that is not running.")
	errTimerActive = errors.New("Cannot start timer since it is already active")
)
