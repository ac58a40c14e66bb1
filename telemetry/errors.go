package telemetry

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/trainspan/trainspan/attributes"
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

// maxStack bounds the frames of a recorded stack.
const maxStack = 32

// errorAttributes describes a failure in the grammar's order: message, then
// type, text and stack of the cause where there is one.
func errorAttributes(message string, cause error, skip int) []attributes.Attr {
	attrs := make([]attributes.Attr, 0, 4)
	attrs = append(attrs, attributes.String(attributes.ErrorMessage, message))
	if cause == nil {
		return attrs
	}
	return append(attrs,
		attributes.String(attributes.ExceptionType, errorType(cause)),
		attributes.String(attributes.ExceptionMessage, errorText(cause)),
		attributes.String(attributes.ExceptionTraceback, stack(skip+1)))
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
