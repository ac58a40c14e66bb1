//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/platform/proc"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"golang.org/x/sys/unix"
)

// children returns the processes that a process started.
func children(pid int) (pids []int) {
	list, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range list {
		text, err := os.ReadFile(path)
		_, after, ok := strings.Cut(string(text), ") ")
		fields := strings.Fields(after)
		if err != nil || !ok || len(fields) < 2 || fields[1] != strconv.Itoa(pid) {
			continue
		}
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		pids = append(pids, child)
	}
	return pids
}

// helperOf returns the telemetry process.
func helperOf(t *testing.T, pid int) (helper int) {
	t.Helper()
	until.True(t, "the telemetry process", func() bool {
		for _, child := range children(pid) {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
			if bytes.Contains(line, []byte(helperCommand)) {
				helper = child
			}
		}
		return helper != 0
	})
	return helper
}

// TestRunIsKilled checks that killing trainspan run does not affect the job,
// and the files are completed.
func TestRunIsKilled(t *testing.T) {
	dir := t.TempDir()
	s := prepare(t, dir, "--otlp", "--", "sh", "-c", "echo ready; read x < go; echo went on > result; runjob train 20 0; runjob send grpc 5")
	if err := unix.Mkfifo(filepath.Join(dir, "go"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.begin()
	s.expect("ready")
	helper := helperOf(t, s.Process.Pid)
	if err := s.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Process.Wait(); err != nil { // the job holds the streams
		t.Fatal(err)
	}
	if r, _ := theRun(t, dir); r.State != rundir.Running {
		t.Errorf("run.json of the killed run: %+v, want state running", r)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte("x\n"), 0); err != nil {
		t.Fatal(err)
	}
	until.True(t, "the end of telemetry", func() bool { return syscall.Kill(helper, 0) != nil })
	if text, err := os.ReadFile(filepath.Join(dir, "result")); err != nil || string(text) != "went on\n" {
		t.Errorf(`the job wrote %q, %v; want "went on"`, text, err)
	}
	r, at := theRun(t, dir)
	if r.State != rundir.Ended || r.EndedBy != rundir.ByUnknown || r.OTLP == nil || r.OTLP.Spans-r.OTLP.Own != 6 || len(r.Processes) == 0 {
		t.Errorf("run.json after the import: %+v, want it ended, cause unknown, 6 OTLP spans and its processes", r)
	}
	traces, _ := filepath.Glob(filepath.Join(at, "*.pfw.gz"))
	if len(traces) != 3 { // those of the job, of OTLP and of resources
		t.Errorf("the traces are %v, want 3", traces)
	}
	for _, path := range traces {
		dftest.Check(t, path)
	}
}

// TestRunAndItsTelemetryAreKilled checks that when all processes of trainspan
// run are killed, the job continues to record, and an import of the directory
// adds its records.
func TestRunAndItsTelemetryAreKilled(t *testing.T) {
	python := pyrun.Interpreter(t)
	dir := t.TempDir()
	const program = `
from trainspan.dftracer.logger import ai
import sys
@ai.compute.forward
def forward(): pass
for i in range(10): forward()
print("ready", flush=True)
open("go").read()
for i in range(10): forward()
open("result", "w").write("went on")
`
	if err := os.WriteFile(filepath.Join(dir, "train.py"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "go"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := prepare(t, dir, "--", python, "train.py")
	s.begin()
	s.expect("ready")
	helper := helperOf(t, s.Process.Pid)
	r, at := theRun(t, dir)
	for _, pid := range []int{s.Process.Pid, helper} {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Process.Wait(); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, int) {
		cmd := exec.Command(s.Path, args...)
		cmd.Dir, cmd.Env = dir, s.Env
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, status := run("trace", "import", at); status != 1 || !strings.Contains(out, "is still writing it") {
		t.Errorf(`import during the run: status %d, want 1 and "is still writing it": %s`, status, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte("x\n"), 0); err != nil {
		t.Fatal(err)
	}
	until.True(t, "the end of the job", func() bool {
		if proc.Alive(helper, 0) { // an ending process has no working directory but may still exist
			return false
		}
		list, _ := filepath.Glob("/proc/[0-9]*/cwd")
		for _, path := range list {
			if to, err := os.Readlink(path); err == nil && to == dir {
				return false
			}
		}
		return true
	})
	if text, err := os.ReadFile(filepath.Join(dir, "result")); err != nil || string(text) != "went on" {
		t.Errorf(`the job wrote %q, %v; want "went on"`, text, err)
	}
	if out, status := run("trace", "import", filepath.Join(dir, rundir.Root), "--json"); status != 0 || strings.Count(out, "\n{")+strings.Count(out, "{\n  \"rings\": [\n    {\n      \"dir\": ") != 1 {
		t.Errorf("status %d, want 0 and one JSON object with the directory of the rings: %s", status, out)
	}
	if out, status := run("trace", "import", at); status != 0 || !strings.Contains(out, "nothing is left to import") {
		t.Errorf(`second import: status %d, want 0 and "nothing is left to import": %s`, status, out)
	}
	traces, _ := filepath.Glob(filepath.Join(at, "*.pfw.gz"))
	found := 0
	for _, path := range traces {
		if filepath.Base(path) != "resources.pfw.gz" {
			found += forwards(t, path)
		}
	}
	if found != 20 {
		t.Errorf("found %d spans in %v, want 20", found, traces)
	}
	for _, folder := range filepath.SplitList(r.Ring) {
		if _, err := os.Stat(folder); err == nil {
			t.Errorf("%s still exists after the import", folder)
		}
	}
}

// forwards returns the number of forward spans of a trace that may be
// truncated.
func forwards(t *testing.T, path string) (n int) {
	t.Helper()
	r, err := dftracer.OpenReader(path, nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer r.Close() //nolint:errcheck // only read
	for {
		ev, err := r.Next()
		if err != nil {
			return n
		}
		if ev.Phase == dftracer.PhaseComplete && ev.Name == "forward" {
			n++
		}
	}
}

// TestRunWithoutItsTelemetryProcess checks that killing the telemetry process
// does not affect the job.
func TestRunWithoutItsTelemetryProcess(t *testing.T) {
	dir := t.TempDir()
	s := prepare(t, dir, "--otlp", "--", "runjob", "signals")
	s.begin()
	s.expect("ready")
	if err := syscall.Kill(helperOf(t, s.Process.Pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := s.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	s.expect("user defined signal 1") // two simultaneous signals may arrive in any order
	if err := s.Process.Signal(syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	if _, status := s.rest(); status != 0 || !strings.Contains(s.err.String(), "telemetry process ended early") || !strings.Contains(s.err.String(), "trainspan trace import "+dir) {
		t.Errorf("status %d, want 0, a message that the telemetry process ended and how to import: %s", status, s.err.String())
	}
}

// TestImportWhileTelemetryGoesOn checks that an import neither reads the files
// of a living telemetry process nor removes files that Python processes need.
func TestImportWhileTelemetryGoesOn(t *testing.T) {
	dir := t.TempDir()
	s := prepare(t, dir, "--quiet", "--", "sh", "-c", "echo ready; read x < go")
	if err := unix.Mkfifo(filepath.Join(dir, "go"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.begin()
	s.expect("ready")
	helper := helperOf(t, s.Process.Pid)
	r, at := theRun(t, dir)
	if r.TelemetryPID != helper {
		t.Errorf("run.json says that telemetry is process %d, not %d", r.TelemetryPID, helper)
	}
	if err := s.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Process.Wait(); err != nil { // the job holds the streams
		t.Fatal(err)
	}
	cmd := exec.Command(s.Path, "trace", "import", at)
	cmd.Dir, cmd.Env = dir, s.Env
	if out, err := cmd.CombinedOutput(); !strings.Contains(string(out), "is still being recorded") {
		t.Errorf("%v: %s, want \"is still being recorded\" in it", err, out)
	}
	for _, folder := range filepath.SplitList(r.Ring) {
		if _, err := os.Stat(folder); err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte("x\n"), 0); err != nil {
		t.Fatal(err)
	}
	until.True(t, "the end of telemetry", func() bool { return syscall.Kill(helper, 0) != nil })
}

// TestImportOfAJobThatGoesOn checks that, if all processes of trainspan run are
// killed, an import during the job keeps the files that later processes of the
// job need to record.
func TestImportOfAJobThatGoesOn(t *testing.T) {
	python := pyrun.Interpreter(t)
	dir := t.TempDir()
	const program = `
from trainspan.dftracer.logger import ai
@ai.compute.forward
def forward(): pass
for i in range(10): forward()
print("ready", flush=True)
open("go").read()
`
	if err := os.WriteFile(filepath.Join(dir, "train.py"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go", "on"} {
		if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	release := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x\n"), 0); err != nil {
			t.Fatal(err)
		}
	}
	s := prepare(t, dir, "--quiet", "--", "sh", "-c", `"$0" train.py; echo between; read x < on; "$0" train.py; echo end`, python)
	s.begin()
	s.expect("ready")
	_, at := theRun(t, dir)
	for _, pid := range []int{helperOf(t, s.Process.Pid), s.Process.Pid} {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Process.Wait(); err != nil {
		t.Fatal(err)
	}
	imported := func() {
		t.Helper()
		cmd := exec.Command(s.Path, "trace", "import", at)
		cmd.Dir, cmd.Env = dir, s.Env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("trainspan trace import: %v: %s", err, out)
		}
	}
	release("go")
	s.expect("between")
	imported()
	release("on")
	s.expect("ready")
	release("go")
	s.expect("end")
	imported()
	traces, _ := filepath.Glob(filepath.Join(at, "*.pfw.gz"))
	found := 0
	for _, path := range traces {
		if filepath.Base(path) != "resources.pfw.gz" {
			found += forwards(t, path)
		}
	}
	if found != 20 {
		t.Errorf("found %d spans in %v, want 20", found, traces)
	}
}
