package dftracer_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/dftracer/dftest"
)

var errDisk = errors.New("no space left")

// flaky is an io.Writer that fails, or takes half, while broken.
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
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			f.set(true)
			for range 3 {
				emit(w, 100)
				if err := w.Flush(); !errors.Is(err, errDisk) {
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
			report, err := dftracer.Validate(bytes.NewReader(f.data.Bytes()), nil)
			if err != nil || !report.OK() {
				t.Fatalf("%v %v", err, report.Err())
			}
			if n := report.Counts["compute/step/X"]; n != 500 {
				t.Errorf("%d events, want 500", n)
			}
			if st := w.Stats(); st.Outages != 1 || st.Lost != 0 || len(reported) != 1 || !errors.Is(reported[0], errDisk) {
				t.Errorf("%+v, reported %v", st, reported)
			}
		})
	}
}

func TestLongOutageSaysWhatIsMissing(t *testing.T) {
	f := &flaky{}
	calls := 0
	w, err := dftracer.NewWriter(f, &dftracer.Options{Compression: dftracer.CompressNone, FlushInterval: time.Hour,
		OnError: func(error) { calls++ }})
	if err != nil {
		t.Fatal(err)
	}
	f.set(true)
	for range 60 { // about 9 MB: more than is kept
		emit(w, 1000)
	}
	_ = w.Flush()
	lost := w.Stats().Lost
	f.set(false)
	emit(w, 10)
	if err := w.Sync(); err != nil {
		t.Error(err)
	}
	if err := w.Close(); !errors.Is(err, errDisk) {
		t.Errorf("close after a loss: %v", err)
	}
	report, err := dftracer.Validate(bytes.NewReader(f.data.Bytes()), nil)
	if err != nil || !report.OK() {
		t.Fatalf("%v %v", err, report.Err())
	}
	lost = max(lost, w.Stats().Lost)
	if lost == 0 || report.Lost != int(lost) || report.Counts["compute/step/X"] != 60010-int(lost) {
		t.Errorf("lost %d, the trace says %d and has %d events", lost, report.Lost, report.Counts["compute/step/X"])
	}
	if calls != 1 {
		t.Errorf("the outage was reported %d times", calls)
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
		t.Errorf("%+v", st)
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
			w.FileHash("/data/x")
			emit(w, 50)
			_ = w.Flush()
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			emit(w, 20)
			_ = w.Sync()
			_ = w.Sync()
			emit(w, 5)
			if err := w.Close(); err == nil {
				t.Error("close says that nothing was lost")
			}
			report := dftest.Check(t, w.Path())
			if report.Lost < 50 || report.Counts["compute/step/X"] < 5 || report.Counts["dftracer/FH/M"] != 2 {
				t.Errorf("%+v", report)
			}
			if got := report.Counts["compute/step/X"] + report.Lost; got < 75 {
				t.Errorf("%d events are unaccounted for", 75-got)
			}
			if len(reported) != 1 {
				t.Errorf("reported %v", reported)
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
	_ = w.Flush()
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	_ = w.Sync()
	emit(w, 5)
	if err := w.Close(); err != nil {
		t.Errorf("nothing was lost, but: %v", err)
	}
	if r := dftest.Check(t, path); r.Counts["compute/step/X"] != 5 || r.Lost != 0 {
		t.Errorf("%+v", r)
	}
}

// childLimit traces into a file that may not grow beyond a limit, which is
// lifted later: a disk that is full for a while.
func childLimit(path string) {
	signal.Ignore(syscall.SIGXFSZ)
	w, err := dftracer.Create(path, &dftracer.Options{FlushInterval: time.Hour, MemberSize: 16 << 10})
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	var old syscall.Rlimit
	_ = syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old)
	full := old
	full.Cur = 3000
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		fmt.Println("error:", err)
		return
	}
	writeSteps(w, 7, 3000)
	err = w.Flush()
	info, _ := os.Stat(path)
	r, _ := dftracer.ValidateFile(path, &dftracer.ValidateOptions{AllowUnfinished: true, AllowMissingParents: true, AllowForeign: true})
	fmt.Println("full:", err != nil, info.Size() <= 3000, r.OK())
	_ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old)
	fmt.Println("sync:", w.Sync())
	fmt.Println("close:", w.Close())
	fmt.Println("lost:", w.Stats().Lost, "outages:", w.Stats().Outages)
}

func TestDiskFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.pfw.gz")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+path, modeVariable+"=limit")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := "full: true true true\nsync: <nil>\nclose: <nil>\nlost: 0 outages: 1\n"
	if string(out) != want {
		t.Errorf("child said\n%swant\n%s", out, want)
	}
	r, err := dftracer.ValidateFile(path, &dftracer.ValidateOptions{AllowMissingParents: true, AllowOutliving: true, AllowForeign: true})
	if err != nil || !r.OK() {
		t.Errorf("%v %v", err, r.Err())
	}
	n := 0
	for k, c := range r.Counts {
		if !strings.HasPrefix(k, "dftracer/") {
			n += c
		}
	}
	if n != 3000 {
		t.Errorf("%d events, want 3000", n)
	}
}
