package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/trainspan/trainspan/internal/kineto"
	jobs "github.com/trainspan/trainspan/internal/run"
	"github.com/trainspan/trainspan/internal/see"
	"github.com/trainspan/trainspan/internal/visible"
)

// The exit statuses.
const (
	statusOK   = 0
	statusData = 1 // the data has problems
	statusUse  = 2 // wrong use, or a file cannot be read or written
)

// statusError is an error with an exit status of its own.
type statusError struct {
	status int
	quiet  bool // told already
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// usage is an error of the person at the keyboard. It says what to do.
func usage(format string, args ...any) error {
	return &statusError{status: statusUse, err: fmt.Errorf(format, args...)}
}

// badData is an error about the contents of a file. It says what to do.
func badData(format string, args ...any) error {
	return &statusError{status: statusData, err: fmt.Errorf(format, args...)}
}

// problem tells about a defect that does not keep the command from going on,
// once: some files are read twice.
func (a *app) problem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if a.told[text] {
		return
	}
	if a.told == nil {
		a.told = make(map[string]bool)
	}
	a.told[text] = true
	a.problems++
	a.note("%s", text)
}

// note tells something that is not about the result itself.
func (a *app) note(format string, args ...any) {
	p := a.paint(a.stderr)
	_, _ = visible.Fprintf(a.stderr, "%s %s\n", p.warn("trainspan:"), fmt.Sprintf(format, args...)) // best effort
}

// explain turns an error into a line that names the file and says what to do.
func explain(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	var refused *kineto.RefusedError
	if errors.As(err, &refused) {
		text := strings.TrimPrefix(err.Error(), "pytorch: ")
		return strings.ReplaceAll(text, "kineto: ", "")
	}
	path := ""
	var at *fs.PathError
	if errors.As(err, &at) {
		path = at.Path
	}
	for _, known := range [...]struct {
		is   error
		what string
	}{
		{fs.ErrNotExist, "there is no such file; check the name"},
		{fs.ErrPermission, "permission denied; ask its owner for access"},
		{syscall.ENOSPC, "no space left on the device; free some or write elsewhere"},
		{syscall.EISDIR, "is a directory; name a file in it"},
		{syscall.EROFS, "the file system is read-only; write elsewhere"},
		{syscall.EPIPE, "the reader of the output went away"},
	} {
		if !errors.Is(err, known.is) {
			continue
		}
		if path == "" {
			before, _, _ := strings.Cut(err.Error(), ": "+known.is.Error())
			path = strings.TrimPrefix(before, "dftracer: ")
		}
		return path + ": " + known.what
	}
	text := err.Error()
	for _, prefix := range [...]string{"dftracer: ", "pytorch: ", "otlp: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	if errors.Is(err, jobs.ErrNoTelemetry) {
		text += "; see " + see.NoTraining
	}
	return strings.ReplaceAll(text, "\n", "; ") // joined errors have a line each
}
