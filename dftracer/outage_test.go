package dftracer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/tracefile"
	"github.com/trainspan/trainspan/internal/tracefile/validate"
)

var errDisk = errors.New("no space left")

// flaky is an io.Writer that fails, or takes half of the data, while broken.
type flaky struct {
	mu     sync.Mutex
	data   bytes.Buffer
	broken bool
	half   bool
}

func (f *flaky) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.broken {
		return f.data.Write(p)
	}
	n := 0
	if f.half && len(p) > 1 {
		n, _ = f.data.Write(p[:len(p)/2])
	}
	return n, errDisk
}

func (f *flaky) set(broken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = broken
}

// bytes returns what was written so far.
func (f *flaky) bytes() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return bytes.Clone(f.data.Bytes())
}

func emit(w *dftracer.Writer, n int) {
	for range n {
		w.Write(&dftracer.Event{Name: "step", Cat: "compute", TS: time.Now().UnixMicro(), Level: 1})
	}
}

func TestShortOutageLosesNothing(t *testing.T) {
	for _, compression := range []dftracer.Compression{dftracer.CompressMembers, dftracer.CompressSingle, dftracer.CompressNone} {
		t.Run(fmt.Sprint(compression), func(t *testing.T) {
			f := &flaky{half: true}
			var reported []error
			w, err := dftracer.NewWriter(f, &dftracer.Options{Compression: compression, FlushInterval: time.Hour, MemberSize: 4 << 10,
				OnError: func(err error) { reported = append(reported, err) }})
			if err != nil {
				t.Fatal(err)
			}
			emit(w, 100)
			if err := w.FlushContext(context.Background()); err != nil {
				t.Fatal(err)
			}
			f.set(true)
			for range 3 {
				emit(w, 100)
				if err := w.FlushContext(context.Background()); !errors.Is(err, errDisk) {
					t.Errorf("flush during the outage: %v", err)
				}
			}
			f.set(false)
			emit(w, 100)
			if err := w.Sync(); err != nil {
				t.Errorf("flush after the outage: %v", err)
			}
			if err := w.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			report, err := validate.Stream(bytes.NewReader(f.data.Bytes()), nil)
			if err != nil || !report.OK() {
				t.Fatalf("%v, %v; want a valid trace", err, report.Err())
			}
			if n := report.Counts["compute/step/X"]; n != 500 {
				t.Errorf("%d events, want 500", n)
			}
			if st := w.Stats(); st.Outages != 1 || st.Lost != 0 || len(reported) != 2 || !errors.Is(reported[0], errDisk) || !errors.Is(reported[1], errDisk) {
				t.Errorf("stats %+v, reports %v; want 1 outage, none lost, two reports of it", st, reported)
			}
		})
	}
}

func TestLongOutageSaysWhatIsMissing(t *testing.T) {
	f := &flaky{}
	calls := 0
	w, err := dftracer.NewWriter(f, &dftracer.Options{Compression: dftracer.CompressNone, FlushInterval: time.Hour,
		StallMemory: 4 << 20, OnError: func(error) { calls++ }})
	if err != nil {
		t.Fatal(err)
	}
	f.set(true)
	for range 60 { // about 9 MB, more than StallMemory
		emit(w, 1000)
	}
	_ = w.FlushContext(context.Background())
	f.set(false)
	emit(w, 10)
	if err := w.Sync(); err != nil {
		t.Error(err)
	}
	if err := w.Close(); !errors.Is(err, errDisk) {
		t.Errorf("close after a loss: %v", err)
	}
	report, err := validate.Stream(bytes.NewReader(f.data.Bytes()), nil)
	if err != nil || !report.OK() {
		t.Fatalf("%v, %v; want a valid trace", err, report.Err())
	}
	lost := w.Stats().Lost
	if lost == 0 || report.Lost != int(lost) || report.Counts["compute/step/X"] != 60010-int(lost) {
		t.Errorf("%d lost, the trace has %d lost and %d events; want both counts equal and above 0, 60010 together", lost, report.Lost, report.Counts["compute/step/X"])
	}
	if calls != 2 {
		t.Errorf("the outage was reported %d times, want its beginning and its end", calls)
	}
	if !bytes.Contains(f.data.Bytes(), []byte(`"reason":"write: no space left","from_ts":`)) {
		t.Error("the record of the loss has no reason")
	}
}

func TestDeadWriterCloses(t *testing.T) {
	f := &flaky{}
	w, err := dftracer.NewWriter(f, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.set(true)
	emit(w, 10)
	if err := w.Close(); !errors.Is(err, errDisk) {
		t.Errorf("close: %v", err)
	}
	if err := w.Close(); !errors.Is(err, errDisk) {
		t.Errorf("second close: %v", err)
	}
	emit(w, 3)
	if st := w.Stats(); st.Late != 3 || st.Lost < 10 {
		t.Errorf("stats %+v, want 3 late and 10 lost or more", st)
	}
	f.broken = true
	if _, err := dftracer.NewWriter(f, nil); !errors.Is(err, errDisk) {
		t.Errorf("new writer: %v", err)
	}
}

func TestRemovedDirectory(t *testing.T) {
	for _, compression := range []dftracer.Compression{dftracer.CompressMembers, dftracer.CompressSingle, dftracer.CompressNone} {
		t.Run(fmt.Sprint(compression), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "traces")
			var reported []error
			w, err := dftracer.Create(filepath.Join(dir, "trace.pfw.gz"), &dftracer.Options{Compression: compression, FlushInterval: time.Hour,
				OnError: func(err error) { reported = append(reported, err) }})
			if err != nil {
				t.Fatal(err)
			}
			w.Hash(tracefile.NameFileHash, "/data/x")
			emit(w, 50)
			_ = w.FlushContext(context.Background())
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			emit(w, 20)
			_ = w.Sync()
			_ = w.Sync()
			emit(w, 5)
			if err := w.Close(); err == nil {
				t.Error("Close returned no error, want one with the lost lines")
			}
			report := dftest.Check(t, w.Path())
			if report.Lost < 50 || report.Counts["compute/step/X"] < 5 || report.Counts["dftracer/FH/M"] != 2 {
				t.Errorf("trace has %+v, want 50 lost and 5 steps or more, 2 FH records", report)
			}
			if got := report.Counts["compute/step/X"] + report.Lost; got < 75 {
				t.Errorf("%d events are neither written nor counted as lost", 75-got)
			}
			if len(reported) != 2 {
				t.Errorf("reported %v, want 2", reported)
			}
		})
	}
}

func TestRenamedFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "trace.pfw.gz")
	w, err := dftracer.Create(path, &dftracer.Options{FlushInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	emit(w, 50)
	_ = w.FlushContext(context.Background())
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	_ = w.Sync()
	emit(w, 5)
	if err := w.Close(); err != nil {
		t.Errorf("nothing was lost, but: %v", err)
	}
	if r := dftest.Check(t, path); r.Counts["compute/step/X"] != 5 || r.Lost != 0 {
		t.Errorf("trace has %+v, want 5 steps, none lost", r)
	}
}

// slow is an io.Writer that waits for permission.
type slow struct {
	flaky
	stalled atomic.Bool
	gate    chan struct{}
}

func (s *slow) Write(p []byte) (int, error) {
	if s.stalled.Load() {
		<-s.gate
	}
	return s.flaky.Write(p)
}

func TestSlowDiskBlocksAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{gate: make(chan struct{})}
		w, err := dftracer.NewWriter(s, &dftracer.Options{Compression: dftracer.CompressNone})
		if err != nil {
			t.Fatal(err)
		}
		s.stalled.Store(true)
		done := make(chan struct{})
		go func() {
			defer close(done)
			emit(w, 40000) // about 6 MB, more than all buffers
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Error("the writer accepted all lines of a stalled disk, want drops")
		default:
		}
		if n := w.Stats().Buffered; n > 4<<20 {
			t.Errorf("%d bytes are buffered, want at most %d", n, 4<<20)
		}
		const held = 100 * time.Millisecond // less than a stall
		time.Sleep(held)
		close(s.gate)
		<-done
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		report, err := validate.Stream(bytes.NewReader(s.bytes()), nil)
		if err != nil || !report.OK() || report.Counts["compute/step/X"] != 40000 {
			t.Errorf("%v %v, %d events; want a valid trace with 40000", err, report.Err(), report.Counts["compute/step/X"])
		}
		if st := w.Stats(); st.Blocked != held || st.Lost > 0 {
			t.Errorf("stats %+v, want %v blocked, none lost", st, held)
		}
	})
}
