package recorder

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// Errors that callers can test for.
var (
	// ErrClosed is returned by a recorder that was closed.
	ErrClosed = errors.New("recorder is already closed")
	// ErrDisabled is why a provider records nothing that is off for this rank,
	// was disabled by force, or has switched itself off after an error. No
	// method returns it: that telemetry is off is no error.
	ErrDisabled = errors.New("telemetry is disabled")
	// ErrNotConfigured is the answer of the nil provider and recorder.
	ErrNotConfigured = errors.New("telemetry is not configured: call TrainingTelemetryBuilder.ConfigureProvider first")
)

// worded is an error with other words in the records than in Go: the records
// have the reference's, which log readers match.
type worded struct{ text, record string }

func (w *worded) Error() string { return w.text }

// recordText is what a record says of a problem.
func recordText(err error) string {
	var w *worded
	if errors.As(err, &w) {
		return w.record
	}
	return errorText(err)
}

// maxStack bounds the frames of a recorded stack.
const maxStack = 32

// failure is an error of the program, described for the records: its methods
// are the program's, and are asked before the recorder's lock is taken.
type failure struct {
	err   error
	text  string
	attrs []attributes.Attr // type, text and stack in the grammar's order
}

// failureOf describes the error with which a span ends, nil for none. known
// reports that a span below has recorded the same error.
func (r *Recorder) failureOf(s *Span, err error, skip int) (f *failure, known bool) {
	if err == nil {
		return nil, false
	}
	if s != nil {
		r.mu.Lock()
		inner := s.inner
		r.mu.Unlock()
		known = inner != nil && sameError(err, inner)
	}
	return r.describe(err, skip+1), known
}

func (r *Recorder) describe(err error, skip int) *failure {
	if err == nil {
		return nil
	}
	f := &failure{err: err, text: errorText(err)}
	f.attrs = r.clean([]attributes.Attr{
		attributes.String(attributes.ExceptionType, errorType(err)),
		attributes.String(attributes.ExceptionMessage, f.text),
		attributes.String(attributes.ExceptionTraceback, cmp.Or(errorTraceback(err), stack(skip+1))),
	})
	return f
}

// errorTraceback is where an error of another program came from, if it says so.
func errorTraceback(err error) (text string) {
	defer func() { _ = recover() }()
	if t, ok := err.(interface{ ErrorTraceback() string }); ok {
		text = t.ErrorTraceback()
	}
	return text
}

// sameError is errors.Is, also for errors whose methods panic. Errors that Go
// cannot compare, such as lists, are the same if type and text are.
func sameError(err, inner error) (same bool) {
	defer func() { _ = recover() }()
	if errors.Is(err, inner) {
		return true
	}
	kind := reflect.TypeOf(inner)
	for !kind.Comparable() && err != nil {
		if reflect.TypeOf(err) == kind {
			return err.Error() == inner.Error()
		}
		err = errors.Unwrap(err)
	}
	return false
}

// attributes are those of an error event in the grammar's order: message, then
// type, text and stack of the cause where there is one. f may be nil.
func (f *failure) attributes(message string) []attributes.Attr {
	attrs := append(make([]attributes.Attr, 0, 4), attributes.String(attributes.ErrorMessage, message))
	if f != nil {
		attrs = append(attrs, f.attrs...)
	}
	return attrs
}

func (f *failure) event(message string, at int64) outputs.Event {
	return outputs.Event{Name: spans.EventError, Time: at, Attributes: f.attributes(message)}
}

// errorType is the type by which a failure is counted: the error's own word
// for it if it has one (the method that OpenTelemetry's conventions ask for),
// else its Go type.
func errorType(err error) (name string) {
	defer func() {
		if recover() != nil {
			name = fmt.Sprintf("%T", err)
		}
	}()
	var typed interface{ ErrorType() string }
	if errors.As(err, &typed) {
		if t := typed.ErrorType(); t != "" {
			return t
		}
	}
	return fmt.Sprintf("%T", err)
}

// errorText is err.Error(), also for an error whose method panics.
func errorText(err error) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("%T", err)
		}
	}()
	return err.Error()
}

// ErrorText is err.Error(), also for an error whose method panics.
func ErrorText(err error) string { return errorText(err) }

// stack lists the callers above skip, the innermost first.
func stack(skip int) string {
	var pcs [maxStack]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(skip+2, pcs[:])])
	var b strings.Builder
	for {
		f, more := frames.Next()
		if f.Function != "" {
			fmt.Fprintf(&b, "%s\n\t%s:%d\n", f.Function, f.File, f.Line)
		}
		if !more {
			return b.String()
		}
	}
}

// panicError is a panic that passed through a scope.
type panicError struct{ value any }

func (p panicError) Error() string     { return fmt.Sprint(p.value) }
func (p panicError) ErrorType() string { return "panic" }

func (p panicError) Unwrap() error {
	err, _ := p.value.(error)
	return err
}

// errGoexit is the failure of a scope whose goroutine was ended by
// runtime.Goexit (a failed test, for instance).
var errGoexit = errors.New("the goroutine ended before the scope did")
