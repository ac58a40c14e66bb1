package main

import (
	"context"
	"io"
	"strings"

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

// traceFile is a trace that appears under its name when it is complete.
type traceFile struct {
	*dftracer.Writer
	out *ui.OutputFile // nil for standard output
}

// createTrace begins a trace. The path "-" is standard output, as plain text.
func createTrace(ctx context.Context, a *ui.App, path string, force bool, inputs []string, opts *dftracer.Options) (*traceFile, error) {
	o := *opts
	o.FlushInterval = noFlush
	o.Heartbeat = -1 // of another process
	var to io.Writer = display.JSON(a.Stdout)
	t := &traceFile{}
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
		t.out, to = out, out
		if o.Compression == dftracer.CompressAuto && strings.HasSuffix(path, ".pfw") {
			o.Compression = dftracer.CompressNone
		}
	}
	var err error
	if t.Writer, err = dftracer.NewWriter(to, &o); err != nil {
		return nil, t.finish(err)
	}
	return t, nil
}

// finish ends the trace; err is why it is not complete, or nil.
func (t *traceFile) finish(err error) error {
	if closeErr := t.Close(); err == nil {
		err = closeErr
	}
	if t.out == nil {
		return err
	}
	return t.out.Finish(err)
}
