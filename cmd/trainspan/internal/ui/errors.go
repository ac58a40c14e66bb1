package ui

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/trainspan/trainspan/internal/ingest/torch/kineto"
	"github.com/trainspan/trainspan/internal/platform/display"
)

// The exit statuses.
const (
	StatusOK   = 0
	StatusData = 1 // the data has problems
	StatusUse  = 2 // wrong use, or a file cannot be read or written
)

// StatusError is an error with an exit status.
type StatusError struct {
	Status int
	Quiet  bool // already reported
	Err    error
}

func (e *StatusError) Error() string { return e.Err.Error() }
func (e *StatusError) Unwrap() error { return e.Err }

// Usage returns an error for wrong use. Its text must have the remedy.
func Usage(format string, args ...any) error {
	return &StatusError{Status: StatusUse, Err: fmt.Errorf(format, args...)}
}

// BadData returns an error about the contents of a file. Its text must have the
// remedy.
func BadData(format string, args ...any) error {
	return &StatusError{Status: StatusData, Err: fmt.Errorf(format, args...)}
}

// Problem reports a defect that does not stop the command. It reports each
// message once, because some files are read twice.
func (a *App) Problem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if a.shown[text] {
		return
	}
	if a.shown == nil {
		a.shown = make(map[string]bool)
	}
	a.shown[text] = true
	a.Problems++
	a.Note("%s", text)
}

// Note prints a message to standard error that is not about the result itself.
func (a *App) Note(format string, args ...any) {
	p := a.Paint(a.Stderr)
	_, _ = display.Fprintf(a.Stderr, "%s %s\n", p.Amber("trainspan:"), fmt.Sprintf(format, args...)) // best effort
}

// Explain returns an error as a line with the file and a remedy.
func Explain(err error) string {
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
		{syscall.ENOSPC, "no space left on the device; free space or write elsewhere"},
		{syscall.EISDIR, "is a directory; name a file in it"},
		{syscall.EROFS, "the file system is read-only; write elsewhere"},
		{syscall.EPIPE, "the reader of the output closed it"},
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
	return OneLine(text)
}

var oneLine = strings.NewReplacer(":\n  ", ": ", "\n  ", "; ", "\n", "; ")

// OneLine returns an error with several lines on one line.
func OneLine(text string) string { return oneLine.Replace(text) }

// Each calls fn for each file in turn. It reports and skips files that fail,
// and returns an error if all fail.
func (a *App) Each(ctx context.Context, files []string, fn func(path string) error) error {
	var failed []error
	for _, path := range files {
		err := fn(path)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	var last error
	if len(failed) == len(files) {
		failed, last = failed[:len(failed)-1], failed[len(failed)-1]
	}
	for _, err := range failed {
		a.Problem("%s", Explain(err))
	}
	return last
}
