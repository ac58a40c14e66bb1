package dftracerexporter

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"github.com/trainspan/trainspan/internal/tracefile/place"
	"github.com/trainspan/trainspan/internal/tracefile/recovery"
)

// open returns the number of open files.
func (r *harness) open() (n int) {
	for _, f := range r.inner.store.Files() {
		if f.Open() {
			n++
		}
	}
	return n
}

// only returns the only file.
func (r *harness) only() *place.File[place.Sender] {
	r.t.Helper()
	for _, f := range r.inner.store.Files() {
		return f
	}
	r.t.Fatal("there is no file")
	return nil
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestIdleFileIsCompleted(t *testing.T) {
	r := start(t, func(c *Config) { c.IdleTimeout = 90 * time.Minute })
	r.send(batch(42, iteration(10, 2, 20)...))
	r.inner.store.Tick(context.Background(), time.Now().Add(80*time.Minute))
	if len(r.inner.store.Files()) != 1 {
		t.Fatal("the file is completed too early")
	}
	r.inner.store.Tick(context.Background(), time.Now().Add(100*time.Minute))
	if len(r.inner.store.Files()) != 0 {
		t.Fatal("the file is still open")
	}
	dftest.Check(t, r.files()[0])
	wantParent(t, named(t, r.files()[0]), "train.iteration", "unfinished")
	// The process continues: the exporter does not overwrite its file.
	r.send(batch(42, testSpan{id: 2, name: "training_loop", start: 10, end: 9000}))
	r.stop()
	files := r.files()
	if len(files) != 2 || !strings.HasSuffix(files[0], "trace-3-node7-42.1.pfw.gz") {
		t.Fatalf("files %v, want two, first trace-3-node7-42.1.pfw.gz", files)
	}
	dftest.Check(t, files[0])
	ev := named(t, files[0])
	if ev["train"] == nil || ev["CM:trace.part"] == nil {
		t.Error("the second file has no span or no record of its part")
	}
}

func TestTooManyFiles(t *testing.T) {
	r := start(t, func(c *Config) { c.MaxOpenFiles = 3 })
	for pid := 1; pid <= 10; pid++ {
		r.ahead.Add(int64(time.Second))
		r.send(batch(pid, testSpan{id: byte(pid), name: "application", end: 10}))
		r.send(batch(1, testSpan{id: byte(100 + pid), name: "keepalive", start: int64(pid), end: int64(pid)}))
		if n := r.open(); n > 3 {
			t.Fatalf("%d files are open, want at most 3", n)
		}
	}
	r.stop()
	if n := len(r.files()); n != 10 {
		t.Errorf("%d files, want one per process and none twice", n)
	}
	for _, f := range r.files() {
		dftest.Check(t, f)
	}
	if open := r.counter("otelcol_dftracer_open_files"); open != 0 {
		t.Errorf("%d files are counted as open, want 0", open)
	}
}

func TestRotation(t *testing.T) {
	r := start(t, func(c *Config) {
		c.RotateSize, c.MemberSize, c.CompressionLevel = 2_000, 4_000, 1
		c.OrderWindow = 0
	})
	for i := range 200 {
		r.send(batch(42, testSpan{id: byte(i%250 + 1), name: "custom" + strings.Repeat("x", i%5), start: int64(10 * i), end: int64(10*i + 5)}))
	}
	r.stop()
	files := r.files()
	if len(files) < 2 {
		t.Fatalf("files are %v, want at least 2", files)
	}
	var n int
	for _, f := range files {
		report := dftest.Check(t, f)
		n += report.Events - 2
	}
	if n != 200 {
		t.Errorf("%d events in %d files, want 200", n, len(files))
	}
}

func TestManySenders(t *testing.T) {
	for _, open := range []int{1, 4} {
		t.Run(strconv.Itoa(open)+" open", func(t *testing.T) { manySenders(t, open) })
	}
}

func manySenders(t *testing.T, open int) {
	r := start(t, func(c *Config) { c.MaxOpenFiles, c.OrderWindow = open, 0 })
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				td := batch(100+(g+i)%6, testSpan{id: byte(i + 1), name: "application", start: int64(i * 10), end: int64(i*10 + 5)})
				td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).SetSpanID(wideID(g*1000 + i))
				if err := r.traces.ConsumeTraces(context.Background(), td); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	r.stop()
	var n int
	for _, f := range r.files() {
		n += dftest.Check(t, f).Counts["ai_root/ai_root/X"]
	}
	if n != 400 || len(r.files()) != 6 {
		t.Errorf("%d spans in %d files, want 400 in 6", n, len(r.files()))
	}
}

func TestWindowWritesByItself(t *testing.T) {
	r := start(t, func(c *Config) { c.OrderWindow, c.FlushInterval = 20*time.Millisecond, 10*time.Millisecond })
	r.send(batch(42, testSpan{id: 1, name: "application", end: 10}))
	until.True(t, "the span is in the file", func() bool {
		report, err := dftracer.ValidateFile(r.files()[0], &dftracer.ValidateOptions{AllowUnfinished: true})
		return err == nil && report.Counts["ai_root/ai_root/X"] == 1
	})
}

func TestFilesAreReadableOnTheirOwn(t *testing.T) {
	r := start(t, func(c *Config) { c.FileName = "{service}/trace-{rank}.pfw" })
	r.send(batch(42, testSpan{id: 1, name: "application", end: 10}))
	r.stop()
	b, err := os.ReadFile(filepath.Join(r.dir, "charlm", "trace-3.pfw"))
	if err != nil || !strings.HasPrefix(string(b), "[\n{") || !strings.HasSuffix(string(b), "\n]") {
		t.Errorf("file is %.60q, %v; want a whole JSON array", b, err)
	}
}

// TestCollectorIsKilled checks that a killed Collector's files become a
// complete trace.
func TestCollectorIsKilled(t *testing.T) {
	r := start(t, nil)
	for i := range 20 {
		r.send(batch(42, iteration(byte(10+4*i), 2, int64(20+200*i))...))
		r.settle()
	}
	late := testSpan{id: 200, parent: 2, name: "data_loader_initialization", start: 5, end: 15}
	r.send(batch(42, late))
	r.settle()
	if err := r.only().Writer.FlushContext(context.Background()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "copy.pfw.gz")
	copyFile(t, r.files()[0], path)
	if _, err := recovery.File(path, nil); err != nil {
		t.Fatal(err)
	}
	report := dftest.Check(t, path)
	if report.Orphans != 0 || report.Events != 20*4+1+2+1 {
		t.Errorf("%d orphans, %d events; want 0, %d", report.Orphans, report.Events, 20*4+1+2+1)
	}
	wantParent(t, named(t, path), "train.iteration", "unfinished")
	wantParent(t, named(t, path), "dataloader.init", "unfinished")
}
