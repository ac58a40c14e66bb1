package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/ui"
	"github.com/trainspan/trainspan/dftracer"
)

// window is a stretch of time, in microseconds since the Unix epoch, that a
// command is asked about. The zero window is all of time.
type window struct{ from, to int64 }

func (w window) all() bool { return w == window{} }

// has reports whether a span starts in the window.
func (w window) has(ev *dftracer.Event) bool {
	return w.hasTime(ev.TS)
}

func (w window) hasTime(us int64) bool { return w.all() || us >= w.from && us < w.to }

func (w window) check(q *filter) error {
	if !w.all() && w.from >= w.to {
		return ui.Usage("--from %s is not before --%s %s; swap them", q.from, q.until, q.to)
	}
	return nil
}

// parseMoment reads a time as people, RFC 3339 and this program write it.
func parseMoment(text string) (time.Time, bool) {
	text = strings.TrimSuffix(text, " UTC")
	for _, layout := range [...]string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// scanMembers reads the members that can hold something of the window. Those
// in which no span ends hold the metadata.
func scanMembers(ctx context.Context, a *ui.App, info *fileInfo, w window, bar *ui.Progress, fn func(*dftracer.Event) error) (*dftracer.Hashes, error) {
	f, err := os.Open(info.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	var parts []io.Reader
	bar.File(info.Path, info.Events)
	for _, m := range info.Members {
		if m.Events == 0 || m.Metadata > 0 || m.Start < w.to && m.End >= w.from {
			parts = append(parts, io.NewSectionReader(f, m.Offset, m.Size))
		}
	}
	r, err := dftracer.NewReader(io.MultiReader(parts...), &dftracer.ReaderOptions{Stop: ctx.Err})
	if err != nil {
		return nil, err
	}
	for {
		ev, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = fn(ev)
		}
		if err != nil {
			return nil, err
		}
		bar.Step()
	}
	bar.EndFile()
	return r.Hashes(), nil
}
