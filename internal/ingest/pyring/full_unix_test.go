//go:build unix

package pyring_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/ringtest"
	"github.com/trainspan/trainspan/internal/testkit/until"
)

// alone runs a test in a separate process, for limits of a whole process. It
// returns true in that process.
func alone(t *testing.T) bool {
	t.Helper()
	const variable = "PYDRAIN_TEST_ALONE"
	if os.Getenv(variable) != "" {
		return false
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), variable+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("child: %v\n%s", err, out)
	}
	return true
}

// fullDisk limits the size of this process's files until its result is called.
// Writes to a mapping are not limited.
func fullDisk(t *testing.T, size uint64) (works func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	full := old
	full.Cur = size
	set := func(l syscall.Rlimit) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
			t.Fatal(err)
		}
	}
	set(full)
	t.Cleanup(func() { set(old) })
	return func() { set(old) }
}

// spansRing returns a ring buffer of this process, which is alive, with regions
// full of spans.
func spansRing(t *testing.T, regions int) (path string, spans int) {
	m := ringtest.New(t, regions)
	binary.LittleEndian.PutUint64(m.Head[ringtest.Ticks:], 0) // any start time
	spans = regions * ringtest.Slots
	for i := range spans {
		m.Span(i, ringtest.At(i), ringtest.At(i)+uint64(i*7919%997))
	}
	return m.Write(), spans
}

// emptied returns how many regions of a ring buffer the reader has released.
func emptied(t *testing.T, path string, regions int) (n int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		return regions // the file was deleted
	}
	defer f.Close() //nolint:errcheck // only read
	table := make([]byte, 16*regions)
	if _, err := io.ReadFull(io.NewSectionReader(f, ringtest.Table, int64(len(table))), table); err != nil {
		t.Fatal(err)
	}
	for i := range regions {
		if binary.LittleEndian.Uint64(table[16*i+8:]) != 0 {
			n++
		}
	}
	return n
}

// inTraces returns the number of spans in the traces of a folder, and of
// duplicates.
func inTraces(t *testing.T, dir string) (spans, twice int) {
	t.Helper()
	seen := make(map[int64]bool)
	for _, name := range traces(t, dir) {
		_, _ = dftracer.Scan(name, nil, func(ev *dftracer.Event) error { // a truncated file is read as far as possible
			if ev.Phase == dftracer.PhaseComplete && ev.Cat == "compute" {
				if seen[ev.TS] {
					twice++
				}
				seen[ev.TS] = true
			}
			return nil
		})
	}
	return len(seen), twice
}

// While the file takes nothing no region is released, however many were read;
// when it works again everything is written, and the ring buffer is emptied and
// deleted.
func TestRingKeepsWhatADiskDoesNotTake(t *testing.T) {
	if alone(t) {
		return
	}
	const regions = 10
	path, n := spansRing(t, regions)
	out := t.TempDir()
	works := fullDisk(t, 4096)
	var log bytes.Buffer // read after Close
	d, err := pyring.New(pyring.Options{Dir: filepath.Dir(path), Out: out, Attempt: -1, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Skip(err)
	}
	until.True(t, "all that is in the ring", func() bool { return d.Stats().Spans == int64(n) })
	if got := emptied(t, path, regions); got != 0 {
		t.Errorf("%d regions were given back while the file took nothing, want 0", got)
	}
	works()
	until.True(t, "the regions to be given back", func() bool { return emptied(t, path, regions) == regions })
	if err := d.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if st := d.Stats(); st.Waiting != 0 || st.Lost != 0 || st.Errors != 0 {
		t.Errorf("afterwards %+v, want nothing waiting or lost; the log says\n%s", st, log.String())
	}
	if got, twice := inTraces(t, out); got != n || twice != 0 {
		t.Errorf("%d spans are in the trace, %d of them twice; want %d, 0", got, twice, n)
	}
	dftest.Check(t, traces(t, out)[0])
}

// If a disk is full to the end, the spans that are not in the trace stay in the
// ring buffer and are counted, and an import writes exactly these.
func TestDiskFullToTheEnd(t *testing.T) {
	if alone(t) {
		return
	}
	const regions = 6
	path, n := spansRing(t, regions)
	out := t.TempDir()
	works := fullDisk(t, 80<<10)
	o := pyring.Options{Dir: filepath.Dir(path), Out: out, Attempt: -1, Log: slog.New(slog.DiscardHandler)}
	d, err := pyring.New(o)
	if err != nil {
		t.Skip(err)
	}
	until.True(t, "all that is in the ring", func() bool { return d.Stats().Spans == int64(n) })
	if err := d.Close(context.Background()); err == nil {
		t.Error("Close returned nil, want an error of the disk")
	}
	written, _ := inTraces(t, out)
	st := d.Stats()
	if st.Waiting+int64(written) != int64(n) || st.Lost != 0 || written == 0 || st.Waiting == 0 {
		t.Errorf("%d spans wait and %d are lost beside %d in the trace, want %d in all, none lost", st.Waiting, st.Lost, written, n)
	}
	again, err := pyring.Import(t.Context(), []string{path}, o)
	if err == nil || again.Waiting == 0 || again.Waiting > st.Waiting {
		t.Errorf("an import while the disk is full: %+v, error %v; want at most %d spans waiting", again, err, st.Waiting)
	}
	works()
	before, _ := inTraces(t, out)
	after, err := pyring.Import(t.Context(), []string{path}, o)
	if got, twice := inTraces(t, out); err != nil || got != n || twice != 0 || after.Spans-after.Again != int64(n-before) || after.Lost != 0 || after.Waiting != 0 {
		t.Errorf("after the import %d spans, %d twice, %+v, error %v; want %d, 0", got, twice, after, err, n)
	}
}
