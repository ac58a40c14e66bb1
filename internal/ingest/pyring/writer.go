package pyring

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trainspan/trainspan/attributes"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/pyring/ring"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/place"
)

// appendValue appends an argument for the value of a span.
func appendValue(dst []dftracer.Arg, n *node, r *ring.Record) []dftracer.Arg {
	switch {
	case r.Value <= 0:
		return dst
	case r.Thread.Lane: // a device's, which worked on it later
		return append(dst, dftracer.Int("background", 1), dftracer.Float("lag_us", float64(r.Value)/1000))
	case n.samples:
		return append(dst, dftracer.Int("samples", r.Value))
	case n.group != "":
		return append(dst, dftracer.Int(argNumber, r.Value))
	}
	return append(dst, dftracer.Int("count", r.Value))
}

// arguments returns the arguments of a span at a time: epoch and step, the
// first ones, the node's, and the span's own, which win.
func (p *process) arguments(n *node, asked int64, first []dftracer.Arg, own []byte) []dftracer.Arg {
	epoch, step := p.places.position(asked)
	if n.epoch >= 0 {
		epoch = n.epoch
	}
	if n.step >= 0 {
		step = n.step
	}
	rest := first
	for _, a := range n.args { // each key once
		if i := slices.IndexFunc(first, func(f dftracer.Arg) bool { return f.Key == a.Key }); i >= 0 {
			rest[i] = a
		} else {
			rest = append(rest, a)
		}
	}
	rest = appendObject(rest, own)
	rest, epoch = take(rest, attributes.Epoch, epoch)
	rest, step = take(rest, attributes.Step, step)
	p.args = rest
	var args []dftracer.Arg
	if n := len(p.spare); n > 0 {
		args, p.spare = p.spare[n-1], p.spare[:n-1]
	} else if n := len(rest) + 2; n > 2 || epoch >= 0 || step >= 0 {
		args = make([]dftracer.Arg, 0, n)
	}
	if epoch >= 0 {
		args = append(args, dftracer.Int(attributes.Epoch, epoch))
	}
	if step >= 0 {
		args = append(args, dftracer.Int(attributes.Step, step))
	}
	return append(args, rest...)
}

// write writes a span below another one (0 for none), and the spans below it.
func (p *process) write(s *span, parent uint64) { p.writeNear(s, parent, 0) }

// writeNear is write for a span below another one on a row.
func (p *process) writeNear(s *span, parent uint64, near int) {
	start, end := s.start/1000, s.end/1000
	seen := p.written != nil && p.written.take(spanOf(s.node, start, end))
	row := near
	if !seen { // spans inside it go to the same row
		row = s.row(near, start, end)
	}
	if len(s.below) > 0 {
		if s.id == 0 {
			s.id = p.w.NextID()
		}
		for i := range s.below {
			s.below[i].level = s.level + 1
			p.writeNear(&s.below[i], s.id, row)
		}
		p.spareSpans(s.below)
		s.below = nil
	}
	if seen {
		p.again++
		s.args = nil
		return
	}
	at := dftracer.Span{
		ID: s.id, TID: p.lane(s.thread, row), TS: start, Dur: end - start, Level: max(s.level, 1), Parent: dftracer.NoParent,
	}
	if parent != 0 {
		at.Parent = int64(parent)
	}
	p.w.WriteComplete(&s.node.key, at, s.args...)
	if cap(s.args) > 0 && len(p.spare) < maxSpare {
		p.spare = append(p.spare, s.args[:0])
	}
	s.args = nil
}

// row returns the row for a span of its thread: not the first one if it began
// before the previous span ended.
func (s *span) row(near int, start, end int64) int {
	first := 0
	if s.aside {
		first = 1
	}
	return s.thread.rows.Place(near, first, start, end)
}

// lane returns the lane of a row.
func (p *process) lane(t *thread, row int) (tid int64) {
	if row != place.Shared {
		return t.tid + int64(row)*tracefile.LaneDistance
	}
	if !p.crowded {
		p.crowded = true
		p.limit("more than 256 spans of one thread of a Python process overlap: further spans share lane 0, where spans may overlap")
		place.WriteShared(p.w, place.MaxLanes)
	}
	return 0
}

// maxSpare bounds the memory kept for argument lists.
const maxSpare = 256

// event returns an open span for its begin record.
func (p *process) event(s *span, parent uint64) *dftracer.Event {
	e := &dftracer.Event{
		ID: s.id, Name: tracefile.KeyName(s.node.key), Cat: tracefile.KeyCat(s.node.key), Type: tracefile.TypePython, TID: s.thread.tid, TS: s.start / 1000,
		Level: s.level, Parent: dftracer.NoParent, Args: s.args,
	}
	if parent != 0 {
		e.Parent = int64(parent)
	}
	return e
}

// spareSpans keeps a list for reuse.
func (p *process) spareSpans(list []span) {
	if cap(list) > 0 && len(p.spans) < maxSpare {
		clear(list)
		p.spans = append(p.spans, list[:0])
	}
}

// written counts spans that are already in a trace: an earlier reader of the
// ring buffer was killed after it wrote them and before it released their
// slots, or the ring buffer was imported before. Different short spans may be
// equal.
type written map[writtenSpan]int

type writtenSpan struct {
	cat, name string
	ts, dur   int64
}

// spanOf returns a span of a node in the form of a trace, with times in
// microseconds.
func spanOf(n *node, start, end int64) writtenSpan {
	return writtenSpan{tracefile.KeyCat(n.key), tracefile.KeyName(n.key), start, end - start}
}

// take reports whether the trace has a span, once for each.
func (w written) take(s writtenSpan) bool {
	n := w[s]
	if n > 0 {
		w[s] = n - 1
	}
	return n > 0
}

// findWritten reads the traces in dir that earlier readers of a ring buffer
// have left under the name of its trace, as far as they can be read. It keeps
// spans that are not older than the ring buffer's contents, and returns nil if
// there are none.
func findWritten(ctx context.Context, path, dir, name string, pid int64) written {
	stem := escape(strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".pfw"))
	var paths []string
	for _, pattern := range []string{".pfw.gz", ".run*.pfw.gz", ".pfw", ".run*.pfw"} {
		found, _ := filepath.Glob(filepath.Join(escape(dir), stem+pattern)) // the pattern is valid
		paths = append(paths, found...)
	}
	if len(paths) == 0 {
		return nil
	}
	since := oldest(ctx, path)
	seen := make(written)
	for _, p := range paths {
		// The trace of a killed reader is truncated: its complete part counts.
		_, _ = dftracer.Scan(p, nil, func(ev *dftracer.Event) error {
			if ev.Phase == dftracer.PhaseComplete && ev.PID == pid && ev.TS >= since {
				seen[writtenSpan{ev.Cat, ev.Name, ev.TS, ev.Dur}]++
			}
			return nil
		})
	}
	return seen
}

// oldest returns the earliest start in a ring buffer, in microseconds since the
// epoch. Its errors occur again when it is imported.
func oldest(ctx context.Context, path string) int64 {
	r, err := ring.Open(path, ring.Options{})
	if err != nil {
		return 0
	}
	defer r.Close()
	since := int64(1<<63 - 1)
	if err := r.Finish(ctx, func(rec *ring.Record) { since = min(since, rec.Start/1000) }); err != nil {
		return 0
	}
	return since
}

// escape returns a pattern that matches only a path.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
