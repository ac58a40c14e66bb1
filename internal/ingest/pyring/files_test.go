package pyring_test

import (
	"encoding/binary"
	"log/slog"
	"math"
	"path/filepath"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/testkit/ringtest"
)

// TestManyFileCalls checks that the calls of a second beyond the first thousand
// are added up, also among calls that began in an earlier second.
func TestManyFileCalls(t *testing.T) {
	m := ringtest.New(t, 1)
	const n, second = 4000, 1_000_000
	for i := range n {
		start, end := 10*second+i, 10*second+i+1
		if i%10 == 0 {
			start = 8*second + i
		}
		m.Put(i, ringtest.Slot{Start: ringtest.At(start), End: ringtest.At(end), Depth: 1, Args: 1 << 63, Value: 1 << 63, Word: 1 | 1<<43})
		none := int64(math.MinInt64)
		binary.LittleEndian.PutUint64(m.Data[64*i+40:], uint64(none))
		binary.LittleEndian.PutUint64(m.Data[64*i+48:], 3) // a file without a name
	}
	out := t.TempDir()
	if _, err := pyring.Import(t.Context(), []string{m.Write()}, pyring.Options{Out: out, Dir: filepath.Dir(m.Path), Attempt: -1, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	single, totals := 0, 0
	for _, path := range traces(t, out) {
		if _, err := dftracer.Scan(path, nil, func(ev *dftracer.Event) error {
			switch {
			case ev.Name != "forward":
			case ev.Phase == dftracer.PhaseComplete:
				single++
			case ev.Phase == dftracer.PhaseCounter:
				totals++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if single != 1000 || totals != 1 {
		t.Errorf("%d calls have their own event, and %d records have the others; want 1000, 1", single, totals)
	}
}
