package iofs

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/trainspan/trainspan/internal/record/dispatch"
	"github.com/trainspan/trainspan/telemetry"
)

// Files wraps the files that a program reads and writes. The zero Files and nil
// record nothing.
type Files struct {
	log dispatch.FileLog
	ctx context.Context
}

// New returns wrappers that record with a provider. They record nothing if the
// provider is nil or off, or has no trace file.
func New(tel *telemetry.Provider) *Files {
	return &Files{log: dispatch.SourceOf(tel.TracerProvider()).FileLog()}
}

// With returns wrappers whose calls nest below the span of ctx while it is
// open, and otherwise below the latest open span of a callback. The context
// carries only the span: it may be canceled.
func (f *Files) With(ctx context.Context) *Files {
	if f == nil || f.log == nil {
		return f
	}
	return &Files{log: f.log, ctx: ctx}
}

// recorder records the calls on one file. The zero recorder records nothing.
type recorder struct {
	file dispatch.File
	log  dispatch.FileLog
	ctx  context.Context
}

// recorderFor returns the recorder of a file.
func (f *Files) recorderFor(path string) recorder {
	if f == nil || f.log == nil {
		return recorder{}
	}
	file := f.log.File(absolute(path))
	if file == nil {
		return recorder{}
	}
	return recorder{file: file, log: f.log, ctx: f.ctx}
}

// absolute returns the absolute path of a file, independent of the working
// directory.
func absolute(path string) string {
	if strings.Contains(path, "://") {
		return path
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

func (r *recorder) isRecording() bool { return r.file != nil }

// now returns the start time of a call, 0 if calls are not recorded.
func (r *recorder) now() int64 {
	if r.file == nil {
		return 0
	}
	return r.log.Now()
}

// moved records a call that moved n of size bytes; size and offset are -1 if
// the call has none.
func (r *recorder) moved(op dispatch.FileOp, start int64, n, size, offset int64, err error) {
	if r.file == nil {
		return
	}
	if n == 0 && err != nil && !errors.Is(err, io.EOF) {
		n = -1
	}
	r.file.Record(r.ctx, dispatch.FileCall{Op: op, Start: start, Ret: n, Size: size, Offset: offset})
}

// done records a call that only succeeds or fails.
func (r *recorder) done(op dispatch.FileOp, start int64, err error) {
	if r.file == nil {
		return
	}
	c := dispatch.FileCall{Op: op, Start: start, Size: -1, Offset: -1}
	if err != nil {
		c.Ret = -1
	}
	r.file.Record(r.ctx, c)
}

// listed records the read of a folder, which returned n entries.
func (r *recorder) listed(start int64, n int, err error) {
	r.moved(dispatch.FileReadDir, start, int64(n), -1, -1, err)
}

// sought records a seek.
func (r *recorder) sought(op dispatch.FileOp, start, offset int64, whence int, at int64, err error) {
	if r.file == nil {
		return
	}
	if err != nil {
		at = -1
	}
	r.file.Record(r.ctx, dispatch.FileCall{Op: op, Start: start, Ret: at, Size: -1, Offset: offset, Whence: whence})
}
