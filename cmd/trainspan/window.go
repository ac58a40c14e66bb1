package main

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/trainspan/trainspan/dftracer"
)

// window is a stretch of time, in microseconds since the Unix epoch, that a
// command is asked about. The zero window is all of time.
type window struct{ from, to int64 }

func (w window) all() bool { return w == window{} }

// has reports whether a record counts: a span that starts in the window, and
// every fact.
func (w window) has(ev *dftracer.Event) bool {
	return w.all() || ev.Phase == dftracer.PhaseMetadata || ev.TS >= w.from && ev.TS < w.to
}

// parseWindow reads the flags --from and --to.
func parseWindow(from, to string) (w window, err error) {
	if from == "" && to == "" {
		return w, nil
	}
	w.to = math.MaxInt64
	for _, flag := range [...]struct {
		name, text string
		value      *int64
	}{{"--from", from, &w.from}, {"--to", to, &w.to}} {
		if flag.text == "" {
			continue
		}
		t, ok := parseMoment(flag.text)
		if !ok {
			return w, usage("%s %s: give a time such as 2026-11-21T01:04:47Z or 2026-11-21 01:04:47.5", flag.name, flag.text)
		}
		*flag.value = t.UnixMicro()
	}
	if w.from >= w.to {
		return w, usage("--from %s is not before --to %s; swap them", from, to)
	}
	return w, nil
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

// scanWindow is scan for a stretch of time. With a fresh index, members that
// lie outside are not even read.
func (a *app) scanWindow(ctx context.Context, path string, w window, bar *progress, fn func(*dftracer.Event) error) (*dftracer.Hashes, error) {
	filtered := func(ev *dftracer.Event) error {
		if !w.has(ev) {
			return nil
		}
		return fn(ev)
	}
	if !w.all() {
		if stat, err := os.Stat(path); err == nil {
			if info := readIndex(path, stat); info != nil && info.Aligned && info.Damaged == "" && info.BadLines == 0 {
				return a.scanMembers(ctx, info, w, bar, filtered)
			}
		}
	}
	_, hashes, err := a.scan(ctx, path, bar, filtered)
	return hashes, err
}

// scanMembers reads the members that can hold something of the window. Those
// in which no span ends hold the facts.
func (a *app) scanMembers(ctx context.Context, info *fileInfo, w window, bar *progress, fn func(*dftracer.Event) error) (*dftracer.Hashes, error) {
	f, err := os.Open(info.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	var parts []io.Reader
	bar.file(info.Path, info.Events)
	for _, m := range info.Members {
		if m.Events == 0 || m.Facts > 0 || m.Start < w.to && m.End >= w.from {
			parts = append(parts, io.NewSectionReader(f, m.Offset, m.Size))
		}
	}
	r, err := dftracer.NewReader(io.MultiReader(parts...), nil)
	if err != nil {
		return nil, err
	}
	for n := 0; ; n++ {
		ev, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && n&0xfff == 0 && ctx.Err() != nil {
			err = usage("%s: interrupted", info.Path)
		}
		if err == nil {
			err = fn(ev)
		}
		if err != nil {
			return nil, err
		}
		bar.step()
	}
	bar.endFile()
	return r.Hashes(), nil
}
