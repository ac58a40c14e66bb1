package otlp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/trainspan/trainspan/internal/delivery"
	"github.com/trainspan/trainspan/internal/outfile"
)

// ReplayResult counts what [Replay] did.
type ReplayResult struct {
	Files    int // files that were sent in full, and deleted
	Sent     int // spans that the receiver took
	Rejected int // spans of batches that it took except for these; they are gone
	Left     int // spans that are still in the directory
	Broken   int // lines that cannot be read; they are left
	InUse    int // files that a process is writing, or another replay is sending
}

// Replay sends the spans that a spill directory keeps, file by file, and
// deletes each file when the receiver took all of it; of a file that was sent
// in part the rest is kept. Files that a living process is still writing are
// left alone. A receiver that is away is tried again for as long as the
// exporter's Config says; Replay then stops with its error. A batch that the
// receiver refuses stays and does not keep the others. Spans may arrive twice
// when a receiver took them but could not say so.
func Replay(ctx context.Context, dir string, to *Exporter) (ReplayResult, error) {
	var r ReplayResult
	if to == nil {
		return r, errors.New("otlp: replay: there is no exporter to send to")
	}
	files, err := spillFiles(dir)
	if err != nil {
		return r, fmt.Errorf("otlp: replay: %w", err)
	}
	var refused error
	for _, f := range files {
		stop, err := r.file(ctx, f.path, to)
		if err != nil && refused == nil {
			refused = fmt.Errorf("otlp: replay %s: %w", f.path, err)
		}
		if stop {
			break
		}
	}
	return r, refused
}

// file sends one file. It reports whether to go on is useless.
func (r *ReplayResult) file(ctx context.Context, path string, to *Exporter) (stop bool, first error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // read only, or written and synced
	if !outfile.Lock(f) {
		r.InUse++
		return false, nil
	}
	if changed(f, path) { // another replay was faster
		return false, nil
	}
	var rest bytes.Buffer
	lines := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if text := bytes.TrimSpace(line); len(text) > 0 {
			keep := stop
			if !stop {
				var failed error
				keep, stop, failed = r.line(ctx, text, to)
				if failed != nil && first == nil {
					first = failed
				}
			} else if spans, err := readJSON(text); err == nil {
				r.Left += countSpans(spans)
			} else {
				r.Broken++
			}
			if keep {
				rest.Write(text)
				rest.WriteByte('\n')
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return stop, err
		}
	}
	if rest.Len() == 0 {
		r.Files++
		return stop, errors.Join(first, os.Remove(path))
	}
	return stop, errors.Join(first, replace(path, rest.Bytes()))
}

// changed reports whether path no longer names f.
func changed(f *os.File, path string) bool {
	now, err := os.Stat(path)
	if err != nil {
		return true
	}
	before, err := f.Stat()
	return err != nil || !os.SameFile(now, before)
}

// line sends one line. keep: it must stay; stop: the receiver is away.
func (r *ReplayResult) line(ctx context.Context, text []byte, to *Exporter) (keep, stop bool, err error) {
	spans, err := readJSON(text)
	if err != nil {
		r.Broken++
		return true, false, fmt.Errorf("a line cannot be read: %w", err)
	}
	n := countSpans(spans)
	rejected, err := to.replay(ctx, spans)
	if err == nil {
		r.Sent += n - rejected
		r.Rejected += rejected
		return false, false, nil
	}
	r.Left += n
	var f *Failure
	return true, ctx.Err() != nil || errors.As(err, &f) && f.Retry, err
}

// replay sends spans with retries, in halves if they are too many for one
// request. Of halves that went different ways all are sent again some day.
func (e *Exporter) replay(ctx context.Context, spans []*tracepb.ResourceSpans) (rejected int, err error) {
	err = delivery.Retry(ctx, e.wire.retry(), func(ctx context.Context) error { return e.upload(ctx, spans) })
	var f *Failure
	if !errors.As(err, &f) {
		return 0, err
	}
	n := countSpans(spans)
	switch {
	case f.Rejected > 0:
		return min(f.Rejected, n), nil
	case f.TooLarge && n > 1:
		a, b := halve(spans, n/2)
		for _, half := range [][]*tracepb.ResourceSpans{a, b} {
			r, err := e.replay(ctx, half)
			rejected += r
			if err != nil {
				return rejected, err
			}
		}
		return rejected, nil
	}
	return 0, err
}

func countSpans(spans []*tracepb.ResourceSpans) (n int) {
	for _, rs := range spans {
		for _, ss := range rs.GetScopeSpans() {
			n += len(ss.GetSpans())
		}
	}
	return n
}

// halve parts spans after the first n.
func halve(spans []*tracepb.ResourceSpans, n int) (a, b []*tracepb.ResourceSpans) {
	for _, rs := range spans {
		for _, ss := range rs.GetScopeSpans() {
			k := min(n, len(ss.GetSpans()))
			n -= k
			for _, part := range []struct {
				to    *[]*tracepb.ResourceSpans
				spans []*tracepb.Span
			}{{&a, ss.GetSpans()[:k]}, {&b, ss.GetSpans()[k:]}} {
				if len(part.spans) > 0 {
					*part.to = append(*part.to, &tracepb.ResourceSpans{
						Resource: rs.GetResource(), SchemaUrl: rs.GetSchemaUrl(),
						ScopeSpans: []*tracepb.ScopeSpans{{Scope: ss.GetScope(), SchemaUrl: ss.GetSchemaUrl(), Spans: part.spans}},
					})
				}
			}
		}
	}
	return a, b
}

// replace puts a file with other content in the place of path.
func replace(path string, content []byte) error {
	f, err := outfile.Temp(path, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the old file is still there
	}
	return err
}
