package dftracer_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/validate"
)

// TestTwoWritersOnOnePath expects every event of both writers in the two files.
func TestTwoWritersOnOnePath(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "trace.pfw.gz")
	const each = 20000
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			w, err := dftracer.Create(path, nil)
			if err != nil {
				t.Error(err)
				return
			}
			emit(w, each)
			if err := w.Close(); err != nil || w.Stats().Lost != 0 {
				t.Errorf("Close() = %v, stats %+v; want no loss", err, w.Stats())
			}
		})
	}
	all.Wait()
	n := 0
	for _, name := range []string{"trace.pfw.gz", "trace.run2.pfw.gz"} {
		n += dftest.Check(t, filepath.Join(dir, name)).Counts["compute/step/X"]
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); n != 2*each || len(files) != 2 {
		t.Errorf("%d events in %v, want %d in two files", n, files, 2*each)
	}
}

// TestOtherNameIsReported tells of the name that is taken, in both ways.
func TestOtherNameIsReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.pfw.gz")
	var told []string
	opts := &dftracer.Options{OnPath: func(path string) { told = append(told, filepath.Base(path)) }}
	for _, want := range []string{"trace.pfw.gz", "trace.run2.pfw.gz", "trace.run3.pfw.gz"} {
		w, err := dftracer.Create(path, opts)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(w.Path()) != want {
			t.Errorf("%s, want %s", w.Path(), want)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(told) != 2 || told[1] != "trace.run3.pfw.gz" {
		t.Errorf("reports %v, want two, the second trace.run3.pfw.gz", told)
	}
}

// TestCloseContextOnAStalledDisk checks that CloseContext returns although the
// disk never takes anything, and that the lines that are not in the file are
// counted.
func TestCloseContextOnAStalledDisk(t *testing.T) {
	s := &slow{gate: make(chan struct{})}
	var mu sync.Mutex
	var told []error
	w, err := dftracer.NewWriter(s, &dftracer.Options{Compression: dftracer.CompressNone, StallMemory: 1 << 20, OnError: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, err)
	}})
	if err != nil {
		t.Fatal(err)
	}
	emit(w, 100)
	if err := w.FlushContext(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.stalled.Store(true)
	emit(w, 60000) // about 9 MB; returns although the disk takes nothing
	if err := w.FlushContext(context.Background()); !errors.Is(err, dftracer.ErrStalled) {
		t.Errorf("flush: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.CloseContext(ctx); !errors.Is(err, dftracer.ErrStalled) || !errors.Is(err, context.Canceled) {
		t.Errorf("close: %v", err)
	}
	lost := int(w.Stats().Lost)
	close(s.gate) // the blocked goroutine ends
	report, err := validate.Stream(bytes.NewReader(s.bytes()), &dftracer.ValidateOptions{AllowUnfinished: true})
	if err != nil {
		t.Fatal(err)
	}
	// It is unknown whether the block in the stalled write arrived; it counts as
	// lost.
	n := report.Counts["compute/step/X"]
	mu.Lock()
	defer mu.Unlock()
	if n < 100 || lost > 60000 || lost+n < 60100 || len(told) != 1 {
		t.Errorf("%d events, %d lost, reports %v; want 100 or more, at most 60000, 60100 or more together, one report", n, lost, told)
	}
}

// TestFullDiskCountsEverything uses a disk that stays full.
func TestFullDiskCountsEverything(t *testing.T) {
	for _, compression := range []dftracer.Compression{dftracer.CompressMembers, dftracer.CompressSingle, dftracer.CompressNone} {
		f := &flaky{}
		w, err := dftracer.NewWriter(f, &dftracer.Options{Compression: compression, StallMemory: 64 << 10})
		if err != nil {
			t.Fatal(err)
		}
		emit(w, 1000)
		if err := w.FlushContext(context.Background()); err != nil {
			t.Fatal(err)
		}
		f.set(true)
		for range 50 {
			emit(w, 1000)
			_ = w.FlushContext(context.Background())
		}
		if err := w.Close(); !errors.Is(err, errDisk) {
			t.Errorf("close: %v", err)
		}
		events, _ := readAll(t, bytes.NewReader(f.bytes()))
		if got := len(events) - 6; got != 1000 || w.Stats().Lost != 50000 {
			t.Errorf("%d: %d events, stats %+v; want 1000 and 50000 lost", compression, got, w.Stats())
		}
	}
}

func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			opts dftracer.Options
			want int
		}{{dftracer.Options{}, 6}, {dftracer.Options{Heartbeat: time.Second}, 65}, {dftracer.Options{Heartbeat: -1}, 0},
			{dftracer.Options{Start: time.Now().Add(-time.Hour)}, 0}, {dftracer.Options{FlushInterval: time.Hour}, 6}} {
			f := &flaky{}
			w, err := dftracer.NewWriter(f, &c.opts)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(65*time.Second + 100*time.Millisecond)
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			r, err := validate.Stream(bytes.NewReader(f.bytes()), nil)
			if err != nil || !r.OK() || r.Counts["dftracer/CM/M"] != c.want {
				t.Errorf("%+v: %v %v: %d heartbeats, want %d", c.opts, err, r.Err(), r.Counts["dftracer/CM/M"], c.want)
			}
			rd, err := dftracer.NewReader(bytes.NewReader(f.bytes()), nil)
			if err != nil {
				t.Fatal(err)
			}
			last := int64(0)
			for ev := range rd.All() {
				if key, value := ev.Meta(); ev.Name == tracefile.NameCustom && key == tracefile.KeyHeartbeat {
					at, err := strconv.ParseInt(value, 10, 64)
					if err != nil || at <= last || time.Now().UnixMicro()-at > 66_000_000 {
						t.Errorf("heartbeat %q, want a time after %d and within the last 66 s", value, last)
					}
					last = at
				}
			}
		}
	})
}

// TestDevices checks that files that are not regular are opened as they are.
func TestDevices(t *testing.T) {
	rank := 1
	w, err := dftracer.Create(os.DevNull, &dftracer.Options{Process: dftracer.Process{Rank: &rank, WorldSize: 4}})
	if err != nil {
		t.Fatal(err)
	}
	emit(w, 10)
	if err := w.Close(); err != nil || w.Path() != os.DevNull {
		t.Errorf("Close of %s: %v, want no error and %s", w.Path(), err, os.DevNull)
	}
	if _, err := os.Stat("/dev/full"); err != nil {
		return
	}
	if w, err := dftracer.Create("/dev/full", nil); err == nil {
		t.Errorf("Create(/dev/full) = %s, want an error; Close: %v", w.Path(), w.Close())
	}
}
