package otlp

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/trainspan/trainspan/internal/export/delivery"
	"github.com/trainspan/trainspan/internal/platform/fsread"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
	"github.com/trainspan/trainspan/internal/platform/otlpform"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// ReplayResult counts what [Replay] and [ReplayFile] did.
type ReplayResult struct {
	Files    int // files that were sent completely
	Kept     int // sent files that are kept, because no exporter made them
	Sent     int // spans that the receiver took
	Rejected int // rejected spans of batches that were otherwise taken; they are gone
	Left     int // spans that are still in the directory
	Broken   int // lines that cannot be parsed; they are kept
	InUse    int // files that a process is writing, or another replay is sending
}

// Replay sends the spans in a spill directory, file by file, and deletes each
// file of an exporter when the receiver took all of it; of a partly sent file
// the rest is kept. Files that a living process is writing are skipped, and
// files with other names than an exporter's are sent and kept. An unreachable
// receiver is retried for as long as the exporter's Config sets; Replay then
// stops with the error. A batch that the receiver refuses is kept and does not
// stop the others. Spans may arrive twice if a receiver took them but its
// answer was lost.
//
// Memory is bounded by the longest line; lines above 64 MiB count as broken.
func Replay(ctx context.Context, dir string, to *Exporter) (ReplayResult, error) {
	var r ReplayResult
	if to == nil {
		return r, errors.New("otlp: replay: the exporter is nil")
	}
	files, err := spillFiles(dir)
	if err != nil {
		return r, fmt.Errorf("otlp: replay: %w", err)
	}
	var refused error
	for _, f := range files {
		stop, err := r.file(ctx, f.path, to, !strings.HasPrefix(filepath.Base(f.path), spillPrefix))
		if err != nil && refused == nil {
			refused = fmt.Errorf("otlp: replay %s: %w", f.path, err)
		}
		if stop {
			break
		}
	}
	return r, refused
}

// ReplayFile is [Replay] for one file, which it never changes: spans of it that
// the receiver did not take are sent again by the next call.
func ReplayFile(ctx context.Context, path string, to *Exporter) (ReplayResult, error) {
	var r ReplayResult
	if to == nil {
		return r, errors.New("otlp: replay: the exporter is nil")
	}
	_, err := r.file(ctx, path, to, true)
	if err != nil {
		err = fmt.Errorf("otlp: replay %s: %w", path, err)
	}
	return r, err
}

// file sends one file. stop reports that further attempts are useless. With
// keep the file is only read.
func (r *ReplayResult) file(ctx context.Context, path string, to *Exporter, keep bool) (stop bool, first error) {
	mode := os.O_RDWR
	if keep {
		mode = os.O_RDONLY
	}
	f, err := os.OpenFile(path, mode, 0)
	if errors.Is(err, os.ErrNotExist) && !keep {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // only read, or written and synced
	if !fswrite.Lock(f) {
		r.InUse++
		return false, nil
	}
	if changed(f, path) { // another replay was faster
		return false, nil
	}
	rest := &remainder{path: path, from: f, frozen: keep}
	defer rest.discard()
	var lines fsread.Lines
	lines.Reset(f, nil)
	left := false
	for {
		at := lines.At()
		text, err := lines.Line()
		if errors.Is(err, io.EOF) {
			break
		}
		long := errors.Is(err, fsread.ErrLongLine)
		if err != nil && !long {
			return stop, errors.Join(first, err)
		}
		stays := false
		switch trimmed := bytes.TrimSpace(text); {
		case long:
			r.Broken++
			stays, first = true, cmp.Or(first, err)
		case len(trimmed) == 0:
		case stop: // nothing more is sent
			stays = true
			r.count(trimmed)
		default:
			var failed error
			stays, stop, failed = r.line(ctx, trimmed, to)
			first = cmp.Or(first, failed)
		}
		left = left || stays
		if failed := rest.take(lines.At()-at, stays); failed != nil {
			return stop, errors.Join(first, failed)
		}
	}
	switch {
	case !left:
		r.Files++
		if keep {
			r.Kept++
			return stop, first
		}
		return stop, errors.Join(first, fswrite.Remove(path, fswrite.Same(f)))
	case keep:
		return stop, first
	}
	return stop, errors.Join(first, rest.replace())
}

// count counts the spans of a line that is not sent.
func (r *ReplayResult) count(text []byte) {
	if spans, err := otlpform.ReadJSON(text); err == nil {
		r.Left += countSpans(spans)
	} else {
		r.Broken++
	}
}

// remainder is the unsent part of a file. It is written to a file of its own
// only if some of the old file was sent.
type remainder struct {
	path   string
	from   *os.File
	frozen bool // the old file must not change

	to    *fswrite.Draft
	out   *bufio.Writer
	at    int64 // how much of the old file was handled
	split bool  // a part of it is dropped
}

// take handles the next n bytes: they stay or are dropped.
func (r *remainder) take(n int64, stays bool) error {
	at := r.at
	r.at += n
	if r.frozen || n == 0 || stays && !r.split {
		return nil
	}
	if !r.split {
		r.split = true
		if err := r.copy(0, at); err != nil {
			return err
		}
	}
	if !stays {
		return nil
	}
	return r.copy(at, n)
}

func (r *remainder) copy(at, n int64) error {
	if n == 0 {
		return nil
	}
	if r.to == nil {
		d, err := fswrite.Begin(r.path, 0o600)
		if err != nil {
			return err
		}
		r.to, r.out = d, bufio.NewWriterSize(d, 256<<10)
	}
	_, err := io.Copy(r.out, io.NewSectionReader(r.from, at, n))
	return err
}

// replace replaces the old file by what stays.
func (r *remainder) replace() error {
	if r.to == nil {
		return nil // all of it
	}
	err := r.out.Flush()
	if err == nil {
		err = r.to.Keep(r.from)
	}
	if err == nil {
		err = r.to.Publish(fswrite.Same(r.from))
	}
	return err // the caller discards
}

// discard removes a remainder that did not replace the file.
func (r *remainder) discard() {
	if r.to != nil {
		r.to.Discard() // the old file is still there
	}
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

// line sends one line. keep reports that it must stay, stop that the receiver
// is unreachable.
func (r *ReplayResult) line(ctx context.Context, text []byte, to *Exporter) (keep, stop bool, err error) {
	spans, err := otlpform.ReadJSON(text)
	if err != nil {
		r.Broken++
		return true, false, fmt.Errorf("cannot parse a line: %w", err)
	}
	n := countSpans(spans)
	rejected, err := to.replay(ctx, spans)
	if err == nil {
		r.Sent += n - rejected
		r.Rejected += rejected
		return false, false, nil
	}
	r.Left += n
	var f *delivery.Error
	return true, ctx.Err() != nil || errors.As(err, &f) && f.Retry, err
}

// replay sends spans with retries, in halves if they are too many for one
// request. If only one half was taken, both are sent again later.
func (e *Exporter) replay(ctx context.Context, spans []*tracepb.ResourceSpans) (rejected int, err error) {
	err = delivery.Retry(ctx, e.wire.retry(), func(ctx context.Context) error { return e.Upload(ctx, spans) })
	var f *delivery.Error
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

// halve splits spans after the first n.
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
