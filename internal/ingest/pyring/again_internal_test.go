package pyring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trainspan/trainspan/internal/ingest/pyring/ring"
	"github.com/trainspan/trainspan/internal/testkit/ringtest"
)

// TestTraceThatCannotBeMadeAtFirst checks that a process is recorded although
// its trace could not be made when its ring buffer was found, and that a failure
// to the end is reported and leaves the ring buffer, with its spans counted.
func TestTraceThatCannotBeMadeAtFirst(t *testing.T) {
	if !ring.Supported {
		t.Skip("there are no rings")
	}
	full, denied := fmt.Errorf("create: %w", syscall.EDQUOT), fmt.Errorf("create: %w", syscall.EACCES)
	for name, c := range map[string]struct {
		fails    []error // of the attempts before Close
		last     error   // of the attempt of Close
		warnings int
		recorded bool
	}{
		"it works again":          {[]error{full, full, nil}, nil, 1, true},
		"it works again at last":  {[]error{full}, nil, 1, true},
		"it fails to the end":     {[]error{full, full}, full, 2, false},
		"it is not allowed":       {[]error{denied}, nil, 2, false},
		"it works the first time": {[]error{nil}, nil, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := ringtest.New(t, 1)
			const n = 10
			for i := range n {
				m.Span(i, ringtest.At(i), ringtest.At(i)+1)
			}
			path := m.Write()
			var log bytes.Buffer
			d := &Drain{
				o:    Options{Dir: filepath.Dir(path), Out: t.TempDir(), Attempt: -1, Log: slog.New(slog.NewTextHandler(&log, nil))},
				stop: make(chan struct{}), known: make(map[string]*found), procs: make(map[*process]bool),
			}
			d.reading, d.enough = context.WithCancel(t.Context())
			attempts, next := 0, error(nil)
			d.begin = func(ctx context.Context, o *Options, r *ring.Ring, live bool) (*process, error) {
				if attempts++; next != nil {
					return nil, next
				}
				return newProcess(ctx, o, r, live)
			}
			for _, next = range c.fails {
				d.scan()
				d.scan() // the pause is not over, or the file is settled
				if f := d.known[path]; !f.settled {
					f.next = f.since
				}
			}
			if attempts != len(c.fails) {
				t.Errorf("%d attempts before Close, want %d", attempts, len(c.fails))
			}
			next = c.last
			err := d.Close(t.Context())
			_, left := os.Stat(path)
			if st := d.Stats(); (err == nil) != c.recorded || errors.Is(left, os.ErrNotExist) != c.recorded || st.Spans == n != c.recorded {
				t.Errorf("Close returned %v, %d spans were read, the ring: %v; want all read: %v", err, st.Spans, left, c.recorded)
			} else if st.Processes != 1 || st.Spans+st.Waiting != n {
				t.Errorf("%d processes, %d spans and %d that wait; want one process and all %d spans", st.Processes, st.Spans, st.Waiting, n)
			}
			if got := strings.Count(log.String(), "level=WARN"); got != c.warnings {
				t.Errorf("%d warnings, want %d:\n%s", got, c.warnings, log.String())
			}
		})
	}
}
