//go:build unix

package dftracer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/platform/fswrite"
)

// childLimit traces into a file with a size limit that is lifted later, like a
// disk that is full for a while.
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
	err = settled(func() error { return w.FlushContext(context.Background()) })
	info, _ := os.Stat(path)
	fmt.Println("full:", err != nil, info.Size() <= 3000, valid(path))
	_ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old)
	fmt.Println("sync:", settled(w.Sync))
	fmt.Println("close:", w.Close())
	fmt.Println("lost:", w.Stats().Lost, "outage:", w.Stats().Outages > 0)
}

// valid reports whether a trace is valid. It tries again for some time, because
// during a write only a part of a member is in the file.
func valid(path string) bool {
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // until valid or timed out
		r, err := dftracer.ValidateFile(path, &dftracer.ValidateOptions{AllowUnfinished: true, AllowMissingParents: true, AllowForeign: true})
		if ok := err == nil && r.OK(); ok || time.Now().After(end) {
			return ok
		}
	}
}

// settled repeats a call until no outage is reported. A disk that is busy with
// the writes of others is also an outage, which ends.
func settled(call func() error) error {
	for {
		if err := call(); !errors.Is(err, fswrite.ErrStalled) {
			return err
		}
	}
}

func TestDiskFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.pfw.gz")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+path, modeVariable+"=limit")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("child: %v\n%s", err, out)
	}
	want := "full: true true true\nsync: <nil>\nclose: <nil>\nlost: 0 outage: true\n"
	if string(out) != want {
		t.Errorf("child printed\n%swant\n%s", out, want)
	}
	r, err := dftracer.ValidateFile(path, &dftracer.ValidateOptions{AllowMissingParents: true, AllowOutliving: true, AllowForeign: true})
	if err != nil || !r.OK() {
		t.Errorf("%v, %v; want a valid trace", err, r.Err())
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
