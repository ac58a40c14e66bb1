package main

import (
	"bufio"
	"context"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/read"
	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/display"
	"github.com/trainspan/trainspan/internal/platform/helptopic"
)

// textFormat encodes events as text of another format.
type textFormat interface {
	begin(dst []byte) []byte
	// event appends the text of an event, which may be empty.
	event(dst []byte, ev *dftracer.Event) []byte
	end(dst []byte) []byte
	// count returns how many events had text.
	count() int64
}

// exportText writes a trace as text.
func exportText(ctx context.Context, a *ui.App, s *survey, output string, o *convertOptions, bar *ui.Progress) (int64, error) {
	var format textFormat = &chromeFormat{from: s}
	if o.to == "otlp" {
		format = newOTLPFormat(s)
	}
	var to io.Writer = display.JSON(a.Stdout)
	var file *ui.OutputFile
	if output != "-" {
		var err error
		if file, err = ui.CreateOutput(ctx, output, o.force); err != nil {
			return 0, err
		}
		to = file
	}
	var zip *gzip.Writer
	if strings.HasSuffix(output, ".gz") {
		zip = gzip.NewWriter(to)
		to = zip
	}
	n, err := writeText(ctx, s, format, to, bar)
	if otlp, ok := format.(*otlpFormat); ok && otlp.aside > 0 {
		a.Problem("%s: %s dropped: OTLP cannot represent their times; see "+helptopic.Damaged, s.path, display.Plural(otlp.aside, "span"))
	}
	if zip != nil {
		if closeErr := zip.Close(); err == nil {
			err = closeErr
		}
	}
	if file != nil {
		err = file.Finish(err)
	}
	return n, err
}

// writeText writes a trace in a text format.
func writeText(ctx context.Context, s *survey, format textFormat, to io.Writer, bar *ui.Progress) (int64, error) {
	w := bufio.NewWriterSize(to, 1<<20)
	buf := format.begin(nil)
	times := read.JudgeBy(s.times.Median(), true)
	err := passThrough(ctx, s, bar, func(ev *dftracer.Event) error {
		if !read.CanBe(times, ev) || ev.Cat == dftracer.CatDFTracer && ev.Phase != dftracer.PhaseMetadata && !s.has(ev.TS) {
			return nil
		}
		if buf = format.event(buf, ev); len(buf) < 64<<10 {
			return nil
		}
		_, err := w.Write(buf)
		buf = buf[:0]
		return err
	})
	if err == nil {
		_, _ = w.Write(format.end(buf)) // Flush returns the error
		err = w.Flush()
	}
	return format.count(), err
}
