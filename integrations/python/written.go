package python

import (
	"path/filepath"
	"strings"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/integrations/python/ring"
)

// written are spans that are in a trace already: an earlier reader of the ring was
// killed after it wrote them and before it gave their slots back, or the ring was
// imported before.
type written map[writtenSpan]struct{}

type writtenSpan struct {
	cat, name string
	ts, dur   int64
}

// findWritten reads the traces in dir that earlier readers of a ring have left
// under the name of its trace, as far as they can be read. It keeps what is not
// older than what the ring holds, and is nil when there is none.
func findWritten(path, dir, name string) (written, error) {
	paths, err := filepath.Glob(filepath.Join(escape(dir), escape(strings.TrimSuffix(name, ".pfw.gz"))+"*.pfw.gz"))
	if err != nil || len(paths) == 0 {
		return nil, err
	}
	r, err := ring.Open(path, ring.Options{})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	since := int64(1<<63 - 1)
	if err := r.Finish(func(rec *ring.Record) { since = min(since, rec.Start/1000) }); err != nil {
		return nil, err
	}
	seen := make(written)
	for _, p := range paths {
		// The trace of a reader that was killed is cut off: what is before counts.
		_, _ = dftracer.Scan(p, &dftracer.ReaderOptions{Ordered: true}, func(ev *dftracer.Event) error {
			if ev.Phase == dftracer.PhaseComplete && ev.TS >= since {
				seen[writtenSpan{ev.Cat, ev.Name, ev.TS, ev.Dur}] = struct{}{}
			}
			return nil
		})
	}
	return seen, nil
}
