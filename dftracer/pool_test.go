package dftracer_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/growth"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// Writers that share a Pool write the same as others, one after the other and
// concurrently.
func TestPool(t *testing.T) {
	pool := dftracer.NewPool()
	key := dftracer.NewKey("torch", "n")
	dir := t.TempDir()
	var wg sync.WaitGroup
	const writers, turns, spans = 20, 5, 500
	for i := range writers {
		wg.Go(func() {
			compression := dftracer.Compression(i % 4)
			path := filepath.Join(dir, fmt.Sprint("trace", i, ".pfw.gz"))
			if compression == dftracer.CompressNone {
				path = filepath.Join(dir, fmt.Sprint("trace", i, ".pfw"))
			}
			w, err := dftracer.Create(path, &dftracer.Options{Pool: pool, Compression: compression, MemberSize: 50_000 * (1 + i%3), Level: i % 10})
			if err != nil {
				t.Error(err)
				return
			}
			for turn := range turns {
				for n := range spans {
					w.WriteComplete(&key, dftracer.Span{TID: int64(1 + n%3), TS: int64(1000 + spans*turn + n), Dur: 1, Parent: dftracer.NoParent}, dftracer.Int("i", int64(i)))
				}
				if turn < turns-1 && i%2 == 0 {
					err := w.Suspend(t.Context())
					for errors.Is(err, dftracer.ErrStalled) { // the tests share the processor and the disk, so a stall may happen; retry
						err = w.Suspend(t.Context())
					}
					if err != nil {
						t.Error(err)
						return
					}
					if w, err = w.Resume(); err != nil {
						t.Error(err)
						return
					}
				}
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			if st := w.Stats(); st.Buffered != 0 {
				t.Errorf("%d bytes are buffered, want 0", st.Buffered)
			}
		})
	}
	wg.Wait()
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(paths) != writers {
		t.Fatalf("%d files, want %d: %v", len(paths), writers, err)
	}
	for _, path := range paths {
		if report := dftest.Check(t, path); report.Counts["torch/n/X"] != turns*spans {
			t.Errorf("%s: counts %v, want %d spans", path, report.Counts, turns*spans)
		}
		for _, ev := range dftest.Events(t, path) {
			if a, ok := ev.Arg("i"); ok && filepath.Base(path) != fmt.Sprint("trace", a.Int64(), ".pfw.gz") && filepath.Base(path) != fmt.Sprint("trace", a.Int64(), ".pfw") {
				t.Fatalf("%s has a span of trace %d, want only its own", path, a.Int64())
			}
		}
	}
}

// A Writer with a Pool costs little: a file, and no compressor of its own.
func TestPoolSavesMemory(t *testing.T) {
	pool := dftracer.NewPool()
	dir := t.TempDir()
	n := 0
	write := func(p *dftracer.Pool) uint64 {
		n++
		return growth.Bytes(func() {
			w, err := dftracer.Create(filepath.Join(dir, fmt.Sprint("trace", n, ".pfw.gz")), &dftracer.Options{Pool: p, Heartbeat: -1, FlushInterval: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			for range 5 {
				tracefile.WriteCustom(w, "key", "value")
				if err := w.Suspend(t.Context()); err != nil {
					t.Fatal(err)
				}
				if w, err = w.Resume(); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
	write(pool)
	own, lent := write(nil), write(pool)
	if lent > own/10 {
		t.Errorf("%d bytes allocated, want at most a tenth of the %d with own compressors", lent, own)
	}
}
