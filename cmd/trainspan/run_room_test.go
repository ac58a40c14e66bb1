//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
	"golang.org/x/sys/unix"
)

// smallDisk makes a file system with a size, and a function that makes it
// larger.
func smallDisk(t *testing.T, size string) (dir string, grow func()) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can make a small file system")
	}
	dir = t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("no small file system can be made here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir, func() {
		if err := unix.Mount("none", dir, "tmpfs", unix.MS_REMOUNT, "size=100m"); err != nil {
			t.Fatal(err)
		}
	}
}

// tracedSpans returns the number of distinct spans of category compute in the
// traces of a folder.
func tracedSpans(t *testing.T, dir string) int64 {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "trace*.pfw.gz"))
	if err != nil {
		t.Fatal(err)
	}
	type key struct {
		name    string
		ts, dur int64
		nth     int
	}
	all := make(map[key]bool)
	for _, path := range paths {
		here := make(map[key]int)
		_, _ = dftracer.Scan(path, nil, func(ev *dftracer.Event) error { // one trace is truncated
			if ev.Phase == dftracer.PhaseComplete && ev.Cat == "compute" {
				k := key{name: ev.Name, ts: ev.TS, dur: ev.Dur}
				here[k]++
				k.nth = here[k]
				for all[k] {
					k.nth++
				}
				all[k] = true
			}
			return nil
		})
	}
	return int64(len(all))
}

// TestRunOnADiskThatStaysFull checks that a job on a full disk ends with its
// own status, which run.json keeps. Records that did not fit into the file stay
// in the ring buffer and are reported, and an import writes them. An import of
// a job without a recorded end does not invent one.
func TestRunOnADiskThatStaysFull(t *testing.T) {
	python := pyrun.Interpreter(t)
	if testing.Short() {
		t.Skip("records 150,000 spans: make test-long")
	}
	const rounds, total = 50_000, 150_000
	program := filepath.Join(t.TempDir(), "train.py")
	text := fmt.Sprintf(`
import sys
from trainspan.dftracer import ai
for i in range(%d):
    with ai.compute.forward:
        pass
    with ai.compute.backward:
        pass
    with ai.compute.step:
        pass
sys.exit(3)
`, rounds)
	if err := os.WriteFile(program, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, forgotten := range map[string]bool{"": false, "and the end was not written down": true} {
		t.Run(name, func(t *testing.T) {
			dir, grow := smallDisk(t, "200k")
			job := filepath.Join(dir, "job")
			s := prepare(t, dir, "-q", "--dir", job, "--", python, program)
			if status := s.finish(); status != 3 {
				t.Fatalf("status %d, want 3: %s", status, s.err.String())
			}
			r, where := theRun(t, dir)
			if r.State != rundir.Ended || r.ExitStatus == nil || *r.ExitStatus != 3 || r.Python == nil {
				t.Fatalf("run.json says %+v, want an end with status 3", r)
			}
			if sum := tracedSpans(t, job) + r.Python.Waiting; r.Python.Waiting == 0 || r.Python.Lost != 0 || sum != total {
				t.Errorf("%+v, with those in the trace %d; want %d, none lost", r.Python, sum, total)
			}
			if want := fmt.Sprintf("%d", r.Python.Waiting/1000); !strings.Contains(s.err.String(), want) || !strings.Contains(s.err.String(), "trainspan trace import "+job) {
				t.Errorf("the command says %q, want the %d spans that wait and the way out", s.err.String(), r.Python.Waiting)
			}
			if status, out, _ := call("report", job, "--json"); status != 0 || !strings.Contains(out, fmt.Sprintf(`"spans_waiting": %d`, r.Python.Waiting)) {
				t.Errorf("report: status %d, want 0 and %d spans waiting", status, r.Python.Waiting)
			}
			grow()
			outcome := "FAILED with status 3"
			if forgotten {
				outcome = "END UNKNOWN"
				if err := rundir.Amend(filepath.Join(where, rundir.FileName), func(r *rundir.Run) {
					r.State, r.Ended, r.EndedBy, r.ExitStatus, r.Seen, r.PID, r.TelemetryPID = rundir.Running, nil, "", nil, r.Started, 0, 0
				}); err != nil {
					t.Fatal(err)
				}
			}
			if status, _, problems := call("trace", "import", job); status != 0 {
				t.Errorf("import: status %d, want 0: %s", status, problems)
			}
			if got := tracedSpans(t, job); got != total {
				t.Errorf("after the import %d spans, want %d", got, total)
			}
			if r, _ := theRun(t, dir); r.Python.Waiting != 0 || r.Ring != "" {
				t.Errorf("after the import run.json has %+v and rings in %q, want none", r.Python, r.Ring)
			}
			if _, out, _ := call("report", job); !strings.Contains(out, outcome) {
				t.Errorf("the report says %.80q, want %s", out, outcome)
			}
		})
	}
}

// snapshot returns the names, sizes and times of the files below a folder.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(&b, "%s is gone\n", path)
			return nil
		}
		if err != nil {
			return err
		}
		if info, err := d.Info(); err == nil && !d.IsDir() {
			fmt.Fprintf(&b, "%s %d %v\n", path, info.Size(), info.ModTime())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestNothingIsWrittenAfterTheReturn checks that all files are in the folder
// when trainspan run returns, and that nothing changes there afterwards.
func TestNothingIsWrittenAfterTheReturn(t *testing.T) {
	for name, flags := range map[string][]string{"with a report": nil, "quiet": {"-q"}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := prepare(t, dir, append(flags, "--", "runjob", "train", "20", "0")...)
			if err := s.Run(); err != nil {
				t.Fatal(err)
			}
			at := snapshot(t, dir)
			s.settle()
			if later := snapshot(t, dir); later != at {
				t.Errorf("files changed after the return: %sinstead of\n%s", later, at)
			}
			if page := strings.Contains(at, "report.html "); page != (flags == nil) || strings.Contains(at, ".tmp ") {
				t.Errorf("at the return: want the page only without flags and no temporary files, got\n%s", at)
			}
		})
	}
}

// TestClientWithoutTelemetry checks that a program finds the client that it
// imports even if telemetry cannot start: without file descriptors, or if the
// maximum file size is smaller than the client.
func TestClientWithoutTelemetry(t *testing.T) {
	python := pyrun.Interpreter(t)
	for name, limit := range map[string]string{"few open files": "-n 12", "short files": "-f 100"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := prepare(t, dir, "-q", "--dir", filepath.Join(dir, "job"), "--", python, "-c", "from trainspan.dftracer import ai\nwith ai.compute.forward: pass\nprint('fine')")
			s.Cmd.Args = append([]string{"bash", "-c", "ulimit " + limit + `; exec "$0" "$@"`}, s.Cmd.Args...)
			s.Cmd.Args[3] = s.Cmd.Path
			bash, err := exec.LookPath("bash")
			if err != nil {
				t.Skip(err)
			}
			s.Cmd.Path = bash
			if status := s.finish(); status != 0 || s.out.String() != "fine\n" {
				t.Errorf("status %d, output %q, want 0 and fine: %s", status, s.out.String(), s.err.String())
			}
			if left, _ := filepath.Glob(filepath.Join(strings.TrimPrefix(s.tmp, "TMPDIR="), "trainspan-*")); len(left) > 0 {
				t.Errorf("%q is left, want none", left)
			}
		})
	}
}

// TestNextStartSweeps checks that the user's next start deletes the files that
// remain if all processes of a start are killed.
func TestNextStartSweeps(t *testing.T) {
	dir := t.TempDir()
	s := prepare(t, dir, "-q", "--", "sh", "-c", "echo ready; exec sleep 600")
	s.begin()
	s.expect("ready")
	helper := helperOf(t, s.Process.Pid)
	var folders []string
	r, _ := theRun(t, dir)
	for _, folder := range filepath.SplitList(r.Ring) {
		folders = append(folders, strings.TrimSuffix(folder, "/rings"))
	}
	for _, pid := range append(children(s.Process.Pid), s.Process.Pid) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_, _ = s.Process.Wait()
	settled(t, s.tmp)
	if len(folders) == 0 || helper == 0 {
		t.Fatalf("folders %q and helper %d, want both of the run that was killed", folders, helper)
	}
	for _, folder := range folders {
		// Any start on this machine deletes what is left in /dev/shm; that of another test may be the first.
		if _, err := os.Stat(folder); err != nil && !strings.HasPrefix(folder, "/dev/shm/") {
			t.Errorf("after the kill: %v", err)
		}
	}
	next := prepare(t, t.TempDir(), "-q", "--", "true")
	next.Env = append(next.Env, s.tmp)
	if status := next.finish(); status != 0 {
		t.Errorf("status %d, want 0: %s", status, next.err.String())
	}
	settled(t, s.tmp)
	for _, folder := range folders {
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s still exists after the next start: %v", folder, err)
		}
	}
}
