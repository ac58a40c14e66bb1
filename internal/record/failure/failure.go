// Package failure describes errors for records: their type, text and stack. The methods
// of an error are user code and may panic.
package failure

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/internal/platform/attrvalue"
	"github.com/trainspan/trainspan/internal/platform/redact"
	"github.com/trainspan/trainspan/internal/tracefile/onelogger"
	"github.com/trainspan/trainspan/spans"
	"github.com/trainspan/trainspan/telemetry/outputs"
)

// Worded is an error with different texts in Go and in the records. The records have
// one-logger's text, which log readers match.
type Worded struct{ Text, Record string }

// Error implements error.
func (w *Worded) Error() string { return w.Text }

// RecordText returns the text of an error for the records.
func RecordText(err error) string {
	var w *Worded
	if errors.As(err, &w) {
		return w.Record
	}
	return Text(err)
}

// maxStack bounds the frames of a recorded stack.
const maxStack = 32

// Failure is an error of the program, described for the records. A nil Failure means no
// error.
type Failure struct {
	Err   error
	Text  string
	Attrs []attributes.Attr // type, text and stack in the grammar's order
}

// Describe returns the description of an error, or nil for a nil error. The stack begins
// skip callers above the caller of Describe.
func Describe(err error, skip int) *Failure {
	if err == nil {
		return nil
	}
	f := &Failure{Err: err, Text: Text(err)}
	f.Attrs = []attributes.Attr{
		attrvalue.String(onelogger.ExceptionType, typeOf(err)),
		attrvalue.String(onelogger.ExceptionMessage, f.Text),
		attrvalue.String(onelogger.ExceptionTraceback, cmp.Or(Clean(traceback(err)), stack(skip+1))),
	}
	return f
}

// Attributes returns the attributes of an error event in the grammar's order: message,
// then type, text and stack of the cause, if any.
func (f *Failure) Attributes(message string) []attributes.Attr {
	attrs := append(make([]attributes.Attr, 0, 4), attrvalue.String(onelogger.ErrorMessage, message))
	if f != nil {
		attrs = append(attrs, f.Attrs...)
	}
	return attrs
}

// Event returns the error event at a time in nanoseconds since the Unix epoch.
func (f *Failure) Event(message string, at int64) outputs.Event {
	return outputs.Event{Name: spans.EventError, Time: at, Attributes: f.Attributes(message)}
}

// traceback returns the traceback of an error from another program, or "".
func traceback(err error) (text string) {
	defer func() { _ = recover() }()
	if t, ok := err.(interface{ ErrorTraceback() string }); ok {
		text = t.ErrorTraceback()
	}
	return text
}

// Same is errors.Is for errors whose methods may panic. Errors of a type that is not
// comparable, such as a slice, are the same if type and text are equal.
func Same(err, inner error) (same bool) {
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

// typeOf returns the type under which a failure is counted: the result of the error's
// method ErrorType, if it has one (the method that OpenTelemetry's conventions define),
// else its Go type.
func typeOf(err error) (name string) {
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

// Text returns err.Error() without what looks like a secret, or the Go type of err if that
// panics.
func Text(err error) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("%T", err)
		}
	}()
	return Clean(err.Error())
}

// Clean returns a text of an error without what looks like a secret. Of a long text, whose
// search takes long, it returns the beginning, still longer than an attribute may be.
func Clean(text string) string {
	const most = 2 * attrvalue.MaxValueBytes
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return redact.Text(text)
}

// stack returns the call stack above skip callers, innermost first.
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

// Panic is a panic that passed through a scope.
type Panic struct{ Value any }

// Error implements error.
func (p Panic) Error() string { return fmt.Sprint(p.Value) }

// ErrorType returns the type under which a panic is counted.
func (p Panic) ErrorType() string { return "panic" }

// Unwrap returns the error that was the value of the panic, or nil.
func (p Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}
