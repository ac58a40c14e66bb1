package pydrain

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/dft"
	"github.com/trainspan/trainspan/internal/ring"
)

// written are spans that are in a trace already, and how often: an earlier reader
// of the ring was killed after it wrote them and before it gave their slots back,
// or the ring was imported before. Short spans may well agree in all of it.
type written map[writtenSpan]int

type writtenSpan struct {
	cat, name string
	ts, dur   int64
}

// spanOf is a span of a node as a trace has it, by its times in microseconds.
func spanOf(n *node, start, end int64) writtenSpan {
	return writtenSpan{dft.KeyCat(n.key), dft.KeyName(n.key), start, end - start}
}

// take reports whether a span is there, once for each.
func (w written) take(s writtenSpan) bool {
	n := w[s]
	if n > 0 {
		w[s] = n - 1
	}
	return n > 0
}

// findWritten reads the traces in dir that earlier readers of a ring have left
// under the name of its trace, as far as they can be read. It keeps what is not
// older than what the ring holds, and is nil when there is none.
func findWritten(ctx context.Context, path, dir, name string, pid int64) written {
	stem := escape(strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".pfw"))
	var paths []string
	for _, pattern := range []string{".pfw.gz", ".run*.pfw.gz", ".pfw", ".run*.pfw"} {
		found, _ := filepath.Glob(filepath.Join(escape(dir), stem+pattern)) // the pattern is well-formed
		paths = append(paths, found...)
	}
	if len(paths) == 0 {
		return nil
	}
	since := oldest(ctx, path)
	seen := make(written)
	for _, p := range paths {
		// The trace of a reader that was killed is cut off: what is before counts.
		_, _ = dftracer.Scan(p, nil, func(ev *dftracer.Event) error {
			if ev.Phase == dftracer.PhaseComplete && ev.PID == pid && ev.TS >= since {
				seen[writtenSpan{ev.Cat, ev.Name, ev.TS, ev.Dur}]++
			}
			return nil
		})
	}
	return seen
}

// oldest is the earliest start in a ring, in microseconds since the epoch. What is
// wrong with the ring comes up again when it is imported.
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

// escape makes a pattern that stands for a path.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
