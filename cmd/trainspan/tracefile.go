package main

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/display"
)

var dialectWords = []string{"v1", "v2", "v22"}

func parseDialect(word string) (dftracer.Dialect, error) {
	switch strings.ToLower(word) {
	case "v1":
		return dftracer.V1, nil
	case "v2":
		return dftracer.V2, nil
	case "v22":
		return dftracer.V22, nil
	}
	return 0, ui.Usage("dialect %s: choose v1, v2 or v22", word)
}

// traceFile is a trace that appears under its name when it is complete. No
// training waits for it: its writes wait for a slow or paused reader as long as
// ctx lives, and nothing is dropped.
type traceFile struct {
	*dftracer.Writer
	ctx  context.Context //nolint:containedctx // of one call
	out  *ui.OutputFile  // nil for standard output
	to   failing
	stop func() bool
}

// failing writes until the first error, and then discards everything: the Writer
// of a recording would try again without end.
type failing struct {
	w   io.Writer
	err atomic.Pointer[error]
}

func (f *failing) Write(p []byte) (int, error) {
	if f.err.Load() == nil {
		if _, err := f.w.Write(p); err != nil {
			f.err.Store(&err)
		}
	}
	return len(p), nil
}

// failed returns the first error of writing.
func (t *traceFile) failed() error {
	if err := t.to.err.Load(); err != nil {
		return *err
	}
	return nil
}

// createTrace begins a trace. The path "-" is standard output, as plain text.
func createTrace(ctx context.Context, a *ui.App, path string, force bool, inputs []string, opts *dftracer.Options) (*traceFile, error) {
	o := *opts
	o.FlushInterval = noFlush
	o.Heartbeat = -1 // of another process
	o.StallWait = -1
	t := &traceFile{ctx: ctx, to: failing{w: display.JSON(a.Stdout)}}
	if path == "-" {
		o.Compression = dftracer.CompressNone
	} else {
		if err := ui.CheckOutput(path, force, inputs); err != nil {
			return nil, err
		}
		out, err := ui.CreateOutput(ctx, path, force)
		if err != nil {
			return nil, err
		}
		t.out, t.to.w = out, out
		if o.Compression == dftracer.CompressAuto && strings.HasSuffix(path, ".pfw") {
			o.Compression = dftracer.CompressNone
		}
	}
	var err error
	if t.Writer, err = dftracer.NewWriter(&t.to, &o); err != nil {
		return nil, t.finish(err)
	}
	w := t.Writer
	t.stop = context.AfterFunc(ctx, func() { _ = w.CloseContext(ctx) }) // ends waiting calls
	return t, nil
}

// never is a time after which no command still runs.
const never = 10 * 365 * 24 * time.Hour

// finish ends the trace; err is why it is not complete, or nil.
func (t *traceFile) finish(err error) error {
	if t.stop != nil {
		t.stop()
	}
	ctx, cancel := context.WithTimeout(t.ctx, never) // without a deadline Close gives up after some time
	defer cancel()
	closeErr := t.CloseContext(ctx)
	if failed := t.failed(); failed != nil && (err == nil || t.ctx.Err() == nil) {
		err = failed
	}
	if err == nil {
		err = closeErr
	}
	if t.out == nil {
		return err
	}
	return t.out.Finish(err)
}
