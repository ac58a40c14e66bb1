//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/rundir"
	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/dftracer/dftest"
)

// programs are the commands of TestMain as files.
var programs = sync.OnceValues(func() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "run-test-*")
	if err != nil {
		return "", err
	}
	for _, name := range []string{"trainspan", "runjob"} {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			return "", err
		}
	}
	return dir, nil
})

// started is a trainspan run under test.
type started struct {
	*exec.Cmd
	t        *testing.T
	out, err bytes.Buffer
	lines    chan string // of its output
	dir      string      // working directory
}

// clean is an environment without a launcher.
func clean(dir string, more ...string) []string {
	env := []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "GORACE=atexit_sleep_ms=0"}
	return append(env, more...)
}

// prepare makes a trainspan run that was not started.
func prepare(t *testing.T, dir string, args ...string) *started {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	s := &started{Cmd: exec.Command(filepath.Join(bin, "trainspan"), append([]string{"run"}, args...)...), t: t, dir: dir}
	s.Dir, s.Env = dir, append(clean(bin), "TMPDIR="+t.TempDir())
	s.Cmd.Stderr = &s.err
	t.Cleanup(func() { // of those whose telemetry process is killed
		for _, left := range rundir.FindLeft(dir) {
			for _, folder := range left.Folders {
				_ = os.RemoveAll(folder)
			}
		}
	})
	return s
}

// begin starts it and follows its output.
func (s *started) begin() {
	s.t.Helper()
	out, err := s.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.lines = make(chan string, 100)
	go func() {
		defer close(s.lines)
		b, rest := make([]byte, 4096), ""
		for {
			n, err := out.Read(b)
			rest += string(b[:n])
			for {
				line, after, ok := strings.Cut(rest, "\n")
				if !ok {
					break
				}
				s.lines <- strings.TrimSuffix(line, "\r")
				rest = after
			}
			if err != nil {
				return
			}
		}
	}()
	s.t.Cleanup(func() { _ = s.Process.Kill() })
}

// expect waits for a line.
func (s *started) expect(want string) {
	s.t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				s.t.Fatalf("the output ended without %q; errors: %s", want, s.err.String())
			}
			if line == want {
				return
			}
		case <-deadline:
			s.t.Fatalf("no %q within a minute", want)
		}
	}
}

// rest gives the remaining lines and the status.
func (s *started) rest() (lines []string, status int) {
	s.t.Helper()
	for line := range s.lines {
		lines = append(lines, line)
	}
	return lines, s.status(s.Wait())
}

func (s *started) status(err error) int {
	s.t.Helper()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return s.ProcessState.ExitCode()
}

// finish runs it to its end.
func (s *started) finish() int {
	s.t.Helper()
	s.Cmd.Stdout = &s.out
	return s.status(s.Run())
}

// theRun reads the only run.json below a folder.
func theRun(t *testing.T, dir string) (*rundir.Run, string) {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if filepath.Base(path) == rundir.FileName {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil || len(paths) != 1 {
		t.Fatalf("%d run.json below %s, %v", len(paths), dir, err)
	}
	r, err := rundir.Read(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	return r, filepath.Dir(paths[0])
}

func TestRunStatus(t *testing.T) {
	for name, c := range map[string]struct {
		args   []string
		want   int
		by     string
		signal string
	}{
		"well":           {[]string{"--", "true"}, 0, rundir.ByExit, ""},
		"status":         {[]string{"sh", "-c", "exit 7"}, 7, rundir.ByExit, ""},
		"killed":         {[]string{"--", "sh", "-c", "kill -9 $$"}, 128 + 9, rundir.BySignal, "SIGKILL"},
		"terminated":     {[]string{"--", "sh", "-c", "kill $$"}, 128 + 15, rundir.BySignal, "SIGTERM"},
		"flags of it":    {[]string{"sh", "-c", "exit $1", "--", "5"}, 5, rundir.ByExit, ""},
		"not found":      {[]string{"--", "no-such-program"}, 127, "", ""},
		"not executable": {[]string{"--", "./plain"}, 126, "", ""},
		"no format":      {[]string{"--", "./broken"}, 126, rundir.ByNotStarting, ""},
		"no command":     {nil, 2, "", ""},
		"wrong flag":     {[]string{"--bogus", "--", "true"}, 2, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, mode := range map[string]os.FileMode{"plain": 0o644, "broken": 0o755} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte("\x00\x01"), mode); err != nil {
					t.Fatal(err)
				}
			}
			s := prepare(t, dir, c.args...)
			if got := s.finish(); got != c.want {
				t.Errorf("status %d, want %d: %s", got, c.want, s.err.String())
			}
			if c.by == "" {
				if _, err := os.Stat(filepath.Join(dir, rundir.Root)); err == nil {
					t.Error("a directory was made for nothing")
				}
				return
			}
			r, _ := theRun(t, dir)
			if r.EndedBy != c.by || r.Signal != c.signal || r.State != rundir.Ended || r.Ended == nil {
				t.Errorf("run.json says %+v", r)
			}
			if c.by == rundir.ByExit && (r.ExitStatus == nil || *r.ExitStatus != c.want) {
				t.Errorf("run.json says status %v", r.ExitStatus)
			}
		})
	}
}

// What the command sees is what it would have seen without, but for variables
// that are added.
func TestRunIsTransparent(t *testing.T) {
	dir := t.TempDir()
	s := prepare(t, dir, "--quiet", "--", "runjob", "self", "", "a b", "--flag=x", "--")
	s.Env = append(s.Env, "SECRET=hunter2", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://backend:4318/v1/traces", "EMPTY=", "PYTHONPATH=/mine")
	s.Stdin = strings.NewReader("input")
	if status := s.finish(); status != 0 {
		t.Fatalf("status %d: %s", status, s.err.String())
	}
	if s.err.Len() != 0 {
		t.Errorf("--quiet says %q", s.err.String())
	}
	var saw struct {
		Args, Env []string
		Dir       string
	}
	if err := json.Unmarshal(s.out.Bytes(), &saw); err != nil {
		t.Fatal(err)
	}
	if want := []string{"runjob", "self", "", "a b", "--flag=x", "--"}; !slices.Equal(saw.Args, want) {
		t.Errorf("arguments are %q", saw.Args)
	}
	if saw.Dir != dir {
		t.Errorf("working directory is %s", saw.Dir)
	}
	for _, v := range s.Env {
		if !slices.Contains(saw.Env, v) && !strings.HasPrefix(v, "PYTHONPATH=") {
			t.Errorf("%s is missing", v)
		}
	}
	for _, v := range saw.Env {
		name, value, _ := strings.Cut(v, "=")
		known := slices.Contains(s.Env, v) || name == "PWD" || strings.HasPrefix(name, "TRAINSPAN_") ||
			name == "PYTHONPATH" && strings.HasSuffix(value, ":/mine")
		if !known {
			t.Errorf("%s was added", v)
		}
	}
}

// Nothing but names of a command line is in any file, and nothing of the environment.
func TestRunWritesNoSecrets(t *testing.T) {
	dir := t.TempDir()
	s := prepare(t, dir, "--", "sh", "-c", "sleep 1.2", "train.py", "--password=hunter2", "--token", "hunter3", "-phunter4", "hunter5")
	s.Env = append(s.Env, "SECRET=hunter6", "OTEL_EXPORTER_OTLP_HEADERS=authorization=hunter7")
	if status := s.finish(); status != 0 {
		t.Fatalf("status %d: %s", status, s.err.String())
	}
	r, at := theRun(t, dir)
	if r.Program != "sh" || r.Script != "train.py" || !slices.Equal(r.Flags, []string{"-c", "--password", "--token", "-p"}) {
		t.Errorf("run.json says %q, %q, %q", r.Program, r.Script, r.Flags)
	}
	files := 0
	err := filepath.WalkDir(at, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm() != 0o644 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if z, err := gzip.NewReader(bytes.NewReader(text)); err == nil {
			if text, err = io.ReadAll(z); err != nil {
				return err
			}
		}
		if bytes.Contains(text, []byte("hunter")) || bytes.Contains(text, []byte("sleep 1.2")) {
			t.Errorf("%s tells a secret", path)
		}
		return nil
	})
	if err != nil || files < 2 {
		t.Errorf("%d files, %v", files, err)
	}
}

// A directory that cannot be made costs the telemetry, not the command.
func TestRunWithoutADirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, rundir.Root), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := prepare(t, dir, "--otlp", "--", "sh", "-c", "echo ran; exit 3")
	if status := s.finish(); status != 3 || s.out.String() != "ran\n" {
		t.Errorf("status %d, output %q", status, s.out.String())
	}
	if !strings.Contains(s.err.String(), "no telemetry") || strings.Count(s.err.String(), "\n") > 2 {
		t.Errorf("it says %q", s.err.String())
	}
}

func TestRunOnAFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make a small file system")
	}
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no small file system can be made here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	s := prepare(t, dir, "--otlp", "--", "sh", "-c", "dd if=/dev/zero of=full bs=1k count=100 2>/dev/null; sleep 1.5; echo ran; exit 4")
	if status := s.finish(); status != 4 || s.out.String() != "ran\n" {
		t.Errorf("status %d, output %q: %s", status, s.out.String(), s.err.String())
	}
}

// A signal reaches the job once, however it was sent.
func TestRunPassesSignalsOnce(t *testing.T) {
	for name, c := range map[string]struct {
		apart []string // the job moves to a process group of its own
		send  func(pid int) error
	}{
		"to the process":            {nil, func(pid int) error { return syscall.Kill(pid, syscall.SIGUSR1) }},
		"to the group":              {nil, func(pid int) error { return syscall.Kill(-pid, syscall.SIGUSR1) }},
		"to the process, job apart": {[]string{"apart"}, func(pid int) error { return syscall.Kill(pid, syscall.SIGUSR1) }},
		"to the group, job apart":   {[]string{"apart"}, func(pid int) error { return syscall.Kill(-pid, syscall.SIGUSR1) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := prepare(t, t.TempDir(), append([]string{"--quiet", "--", "runjob", "signals", "2"}, c.apart...)...)
			s.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			s.begin()
			s.expect("ready")
			for range 2 {
				if err := c.send(s.Process.Pid); err != nil {
					t.Fatal(err)
				}
				s.expect("user defined signal 1")
			}
			if lines, status := s.rest(); status != 0 || !slices.Equal(lines, []string{"end"}) {
				t.Errorf("status %d, then %q", status, lines)
			}
		})
	}
}

// A signal that the command does not handle ends it, and the status says so.
func TestRunEndsByASignal(t *testing.T) {
	for _, group := range []bool{false, true} {
		t.Run(fmt.Sprintf("group %v", group), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := prepare(t, dir, "--quiet", "--", "sh", "-c", "echo ready; sleep 60 >/dev/null 2>&1 & wait")
			s.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			s.begin()
			s.expect("ready")
			to := s.Process.Pid
			if group {
				to = -to
			}
			if err := syscall.Kill(to, syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if _, status := s.rest(); status != 128+15 {
				t.Errorf("status %d", status)
			}
			if r, _ := theRun(t, dir); r.Signal != "SIGTERM" {
				t.Errorf("run.json says %+v", r)
			}
		})
	}
}

// What is ignored when trainspan run starts stays ignored, as under nohup.
func TestRunKeepsIgnoredSignals(t *testing.T) {
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `trap "" HUP INT; exec trainspan run --quiet -- sh -c 'grep SigIgn /proc/self/status'`)
	cmd.Dir, cmd.Env = t.TempDir(), clean(bin)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	mask, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(string(out), "SigIgn:")), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if mask&(1<<(s-1)) == 0 {
			t.Errorf("%v is not ignored: %x", s, mask)
		}
	}
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGPIPE} {
		if mask&(1<<(s-1)) != 0 {
			t.Errorf("%v is ignored: %x", s, mask)
		}
	}
}

// Ctrl-C at a terminal reaches the job once, and trainspan run waits for it.
func TestRunAtATerminal(t *testing.T) {
	terminal, line := openTerminal(t)
	s := prepare(t, t.TempDir(), "--quiet", "--", "runjob", "signals", "3")
	s.Cmd.Stdin, s.Cmd.Stderr = line, line
	s.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	s.begin()
	_ = line.Close()
	s.expect("ready")
	for _, key := range []struct{ key, signal string }{{"\x03", "interrupt"}, {"\x1c", "quit"}, {"\x03", "interrupt"}} {
		if _, err := io.WriteString(terminal, key.key); err != nil {
			t.Fatal(err)
		}
		s.expect(key.signal)
	}
	if lines, status := s.rest(); status != 0 || !slices.Equal(lines, []string{"end"}) {
		t.Errorf("status %d, then %q", status, lines)
	}
}

// openTerminal makes a terminal and the line to it.
func openTerminal(t *testing.T) (terminal, line *os.File) {
	t.Helper()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	n, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		line, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	go io.Copy(io.Discard, terminal) //nolint:errcheck // what it echoes
	return terminal, line
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// children lists the processes that a process started.
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

// helperOf finds the telemetry process.
func helperOf(t *testing.T, pid int) (helper int) {
	t.Helper()
	eventually(t, "the telemetry process", func() bool {
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

// Killing trainspan run leaves the job alone, and the files are completed.
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
		t.Errorf("run.json says %+v", r)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte("x\n"), 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of telemetry", func() bool { return syscall.Kill(helper, 0) != nil })
	if text, err := os.ReadFile(filepath.Join(dir, "result")); err != nil || string(text) != "went on\n" {
		t.Errorf("the job wrote %q, %v", text, err)
	}
	r, at := theRun(t, dir)
	if r.State != rundir.Ended || r.EndedBy != rundir.ByUnknown || r.OTLP == nil || r.OTLP.Spans-r.OTLP.Own != 6 || len(r.Processes) == 0 {
		t.Errorf("run.json says %+v", r)
	}
	traces, _ := filepath.Glob(filepath.Join(at, "*.pfw.gz"))
	if len(traces) != 3 { // of the job, by OTLP, resources
		t.Errorf("the traces are %v", traces)
	}
	for _, path := range traces {
		dftest.Check(t, path)
	}
}

// When all of trainspan run is killed, the job goes on recording, and an import of
// the directory brings it in.
func TestRunAndItsTelemetryAreKilled(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
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
	if out, status := run("import", at); status != 1 || !strings.Contains(out, "still writes it") {
		t.Errorf("status %d: %s", status, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte("x\n"), 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the job", func() bool {
		list, _ := filepath.Glob("/proc/[0-9]*/cwd")
		for _, path := range list {
			if to, err := os.Readlink(path); err == nil && to == dir {
				return false
			}
		}
		return true
	})
	if text, err := os.ReadFile(filepath.Join(dir, "result")); err != nil || string(text) != "went on" {
		t.Errorf("the job wrote %q, %v", text, err)
	}
	if out, status := run("import", filepath.Join(dir, rundir.Root)); status != 0 {
		t.Errorf("status %d: %s", status, out)
	}
	traces, _ := filepath.Glob(filepath.Join(at, "*.pfw.gz"))
	found := 0
	for _, path := range traces {
		if filepath.Base(path) != "resources.pfw.gz" {
			found += forwards(t, path)
		}
	}
	if found != 20 {
		t.Errorf("%d spans are in %v", found, traces)
	}
	for _, folder := range filepath.SplitList(r.Ring) {
		if _, err := os.Stat(folder); err == nil {
			t.Errorf("%s is left", folder)
		}
	}
}

// forwards counts the forward spans of a trace that may be cut off.
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

// Killing the telemetry process leaves everything else alone.
func TestRunWithoutItsTelemetryProcess(t *testing.T) {
	dir := t.TempDir()
	s := prepare(t, dir, "--otlp", "--", "runjob", "signals", "1")
	s.begin()
	s.expect("ready")
	if err := syscall.Kill(helperOf(t, s.Process.Pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "word of it", func() bool {
		if err := s.Process.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		select {
		case line := <-s.lines:
			return line == "user defined signal 1"
		case <-time.After(time.Second):
			return false
		}
	})
	if _, status := s.rest(); status != 0 || !strings.Contains(s.err.String(), "telemetry process ended early") {
		t.Errorf("status %d: %s", status, s.err.String())
	}
}

// Orphans of the command are reaped.
func TestRunReapsOrphans(t *testing.T) {
	s := prepare(t, t.TempDir(), "--quiet", "--", "sh", "-c", "(sleep 0.3 & sleep 0.3 &) ; echo ready; read x")
	in, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.begin()
	s.expect("ready")
	two := func() bool { return len(children(s.Process.Pid)) == 2 } // the command and the telemetry process
	eventually(t, "orphans", func() bool { return len(children(s.Process.Pid)) == 4 || two() })
	eventually(t, "their end", two)
	_ = in.Close()
	s.rest()
}

// As process 1 of a container it works the same.
func TestRunAsProcessOne(t *testing.T) {
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(filepath.Join(bin, "trainspan"), "run", "--quiet", "--", "sh", "-c", "(sleep 0.2 &); sleep 0.6; for p in /proc/[0-9]*; do grep -q '^State:.Z' $p/status && echo zombie; done; kill -9 $$")
	cmd.Dir, cmd.Env = dir, clean(bin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skipf("no process namespace can be made here: %v", err)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 128+9 {
		t.Errorf("%v: %s", err, out)
	}
	if bytes.Contains(out, []byte("zombie")) {
		t.Errorf("%s", out)
	}
}

// Restarts are attempts of one job, and what they repeat is lost work.
func TestRunAttempts(t *testing.T) {
	dir := t.TempDir()
	for i, args := range [][]string{{"10", "0"}, {"10", "5"}, {"10", "15"}} {
		s := prepare(t, dir, append([]string{"--name", "job", "--", "runjob", "train"}, args...)...)
		if status := s.finish(); status != 0 {
			t.Fatalf("start %d: status %d: %s", i, status, s.err.String())
		}
		if i == 2 && (!strings.Contains(s.err.String(), "lost 5 steps") || !strings.Contains(s.err.String(), "ATTEMPTS")) {
			t.Errorf("the report is %s", s.err.String())
		}
	}
	for i := range 3 {
		r, at := theRun(t, filepath.Join(dir, rundir.Root, "job", fmt.Sprintf("attempt-%d", i)))
		if r.Attempt != i || r.Name != "job" {
			t.Errorf("attempt %d: run.json says %+v", i, r)
		}
		for _, name := range []string{"trace.pfw.gz", "telemetry.jsonl", "resources.pfw.gz", "report.html"} {
			if _, err := os.Stat(filepath.Join(at, name)); err != nil {
				t.Error(err)
			}
		}
	}
	s := prepare(t, dir, "--name", "job", "--attempt", "1", "--quiet", "--", "true")
	if status := s.finish(); status != 0 {
		t.Fatalf("status %d: %s", status, s.err.String())
	}
	joined, _ := filepath.Glob(filepath.Join(dir, rundir.Root, "job", "attempt-1", "*", rundir.FileName))
	if len(joined) != 2 {
		t.Errorf("attempt 1 has %v", joined)
	}
}

// Processes of one start of a launcher share an attempt; another start has its own.
func TestRunJoinsByJobID(t *testing.T) {
	dir := t.TempDir()
	start := func(env ...string) *started {
		s := prepare(t, dir, "--name", "job", "--quiet", "--no-resources", "--", "true")
		s.Env = append(s.Env, env...)
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		return s
	}
	attempts := func() map[string]int {
		n := make(map[string]int)
		paths, _ := filepath.Glob(filepath.Join(dir, rundir.Root, "job", "attempt-*", "*", rundir.FileName))
		for _, path := range paths {
			n[filepath.Base(filepath.Dir(filepath.Dir(path)))]++
		}
		return n
	}
	for _, env := range [][]string{{"SLURM_JOB_ID=7"}, {"SLURM_JOB_ID=7", "SLURM_RESTART_COUNT=1"}, {"SLURM_JOB_ID=8"}} {
		var all []*started
		for rank := range 4 {
			all = append(all, start(append(env, fmt.Sprintf("SLURM_PROCID=%d", rank), "SLURM_NTASKS=4")...))
		}
		for _, s := range all {
			if err := s.Wait(); err != nil {
				t.Errorf("%v: %s", err, s.err.String())
			}
		}
	}
	if got := fmt.Sprint(attempts()); got != "map[attempt-0:4 attempt-1:4 attempt-2:4]" {
		t.Errorf("attempts are %s", got)
	}
}

// Under another trainspan run there is only that one.
func TestRunNested(t *testing.T) {
	dir := t.TempDir()
	s := prepare(t, dir, "--quiet", "--", "trainspan", "run", "--", "trainspan", "run", "sh", "-c", "exit 6")
	if status := s.finish(); status != 6 {
		t.Errorf("status %d: %s", status, s.err.String())
	}
	theRun(t, dir)
}

// Spans come in by either protocol, and a job of this library is not counted twice.
func TestRunReceivesOTLP(t *testing.T) {
	dir := t.TempDir()
	s := prepare(t, dir, "--otlp", "--", "sh", "-c", "runjob send http 5; OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=${OTEL_EXPORTER_OTLP_TRACES_ENDPOINT%/v1/traces} runjob send grpc 7; runjob train 10 0")
	if status := s.finish(); status != 0 {
		t.Fatalf("status %d: %s%s", status, s.out.String(), s.err.String())
	}
	r, at := theRun(t, dir)
	if o := r.OTLP; o == nil || o.Own == 0 || o.Spans != 6+8+o.Own || o.Refused+o.Rejected != 0 {
		t.Errorf("run.json says %+v", r.OTLP)
	}
	steps := make(map[int]int)
	paths, _ := filepath.Glob(filepath.Join(at, "otlp-*.pfw.gz"))
	for _, path := range paths {
		steps[dftest.Check(t, path).Counts["pipeline/train.iteration/X"]]++
	}
	if fmt.Sprint(steps) != "map[5:1 7:1]" { // each process has its own file, though they do not say who they are
		t.Errorf("%v have %v steps", paths, steps)
	}
	own, _ := filepath.Glob(filepath.Join(at, "trace*.pfw.gz"))
	if len(own) != 1 {
		t.Errorf("the job's own files are %v", own)
	}
	if strings.Contains(s.err.String(), "telemetry lost") {
		t.Errorf("it says %s", s.err.String())
	}
}

// What is received goes on to the user's backend, with its headers, counted.
func TestRunForwards(t *testing.T) {
	var spans atomic.Int64
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var req collectorpb.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(body, &req) != nil || r.Header.Get("Authorization") != "token" || r.URL.Path != "/v1/traces" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		for _, rs := range req.GetResourceSpans() {
			for _, ss := range rs.GetScopeSpans() {
				spans.Add(int64(len(ss.GetSpans())))
			}
		}
	}))
	defer backend.Close()
	dir := t.TempDir()
	s := prepare(t, dir, "--quiet", "--forward", backend.URL, "--", "sh", "-c", "runjob send http 5; runjob train 3 0")
	s.Env = append(s.Env, "OTEL_EXPORTER_OTLP_HEADERS=authorization=token")
	if status := s.finish(); status != 0 {
		t.Fatalf("status %d: %s%s", status, s.out.String(), s.err.String())
	}
	r, _ := theRun(t, dir)
	if f := r.Forward; f == nil || f.Lost != 0 || f.Sent != f.Spans || f.Sent != r.OTLP.Spans || f.Sent != spans.Load() || f.Sent <= 6 {
		t.Errorf("run.json says %+v of %+v, the backend got %d", r.Forward, r.OTLP, spans.Load())
	}
	backend.Close()
	s = prepare(t, t.TempDir(), "--forward", backend.URL, "--", "runjob", "send", "http", "5")
	if status := s.finish(); status != 0 || !strings.Contains(s.err.String(), "6 spans were not sent on") {
		t.Errorf("status %d: %s%s", status, s.out.String(), s.err.String())
	}
}

// Profiler files of this start are imported, those of earlier ones are not.
func TestRunImportsProfiles(t *testing.T) {
	dir := t.TempDir()
	const profile = `{"schemaVersion":1,"traceEvents":[
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#%d","pid":100,"tid":100,"ts":1778000000000000,"dur":1000,"args":{"External id":1}},
{"ph":"X","cat":"cpu_op","name":"aten::add","pid":100,"tid":100,"ts":1778000000000100,"dur":10,"args":{"External id":2}}
],"traceName":"x"}`
	prof := filepath.Join(dir, "prof")
	if err := os.Mkdir(prof, 0o755); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(prof, "old.pt.trace.json")
	for n, path := range []string{old, filepath.Join(dir, "new")} {
		if err := os.WriteFile(path, fmt.Appendf(nil, profile, n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if past := time.Now().Add(-time.Hour); os.Chtimes(old, past, past) != nil {
		t.Fatal("the date of a file cannot be set")
	}
	s := prepare(t, dir, "--quiet", "--profiles", "prof", "--", "sh", "-c", "cat new > prof/new.pt.trace.json")
	if status := s.finish(); status != 0 || s.err.Len() != 0 {
		t.Fatalf("status %d: %s", status, s.err.String())
	}
	_, at := theRun(t, dir)
	counts := dftest.Check(t, filepath.Join(at, "profiles.pfw.gz")).Counts
	if counts["pipeline/train.iteration/X"] != 1 {
		t.Errorf("counts are %v", counts)
	}
	if left, _ := filepath.Glob(filepath.Join(prof, ".*")); len(left) != 0 {
		t.Errorf("%v were left in the directory of the profiler", left)
	}
}

// Python's own http sends JSON.
func TestRunReceivesFromPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	const program = `
import json, os, time, urllib.request
now = time.time_ns()
span = lambda i, name, a, b, parent, attrs: dict(traceId="5b8efff798038103d269b633813fc60c", spanId="%016x" % i, parentSpanId=parent, name=name,
    kind=1, startTimeUnixNano=str(a), endTimeUnixNano=str(b), attributes=attrs)
step = lambda i: [{"key": "rl.step", "value": {"intValue": str(i)}}]
spans = [span(1, "rl.sft.job", now - 10**9, now, "", [])]
spans += [span(2 + i, "rl.sft.step", now - 10**9 + i * 10**8, now - 10**9 + (i + 1) * 10**8, "%016x" % 1, step(i)) for i in range(9)]
body = {"resourceSpans": [{"resource": {"attributes": [{"key": "nv.dl.rank", "value": {"stringValue": "3"}}]},
    "scopeSpans": [{"scope": {"name": "nemo_rl"}, "spans": spans}]}]}
request = urllib.request.Request(os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"], json.dumps(body).encode(), {"Content-Type": "application/json"})
print(urllib.request.urlopen(request).read().decode())
`
	dir := t.TempDir()
	s := prepare(t, dir, "--otlp", "--quiet", "--", python, "-c", program)
	if status := s.finish(); status != 0 || s.out.String() != "{}\n" {
		t.Fatalf("status %d: %s%s", status, s.out.String(), s.err.String())
	}
	_, at := theRun(t, dir)
	paths, _ := filepath.Glob(filepath.Join(at, "otlp-*.pfw.gz"))
	if len(paths) != 1 {
		t.Fatalf("the files are %v", paths)
	}
	steps := 0
	for _, ev := range dftest.Events(t, paths[0]) {
		if a, ok := ev.Arg("step"); ok && ev.Name == "train.iteration" && a.Kind() == dftracer.KindInt {
			steps++
		}
	}
	if steps != 9 {
		t.Errorf("%d steps", steps)
	}
}

// Counters of every process are in the trace of resources.
func TestRunSamplesResources(t *testing.T) {
	dir := t.TempDir()
	s := prepare(t, dir, "--quiet", "--", "sh", "-c", "runjob grow 50; sleep 2.5; exit 0")
	if status := s.finish(); status != 0 {
		t.Fatalf("status %d: %s", status, s.err.String())
	}
	r, at := theRun(t, dir)
	names := make(map[string]int)
	for _, ev := range dftest.Events(t, filepath.Join(at, "resources.pfw.gz")) {
		if ev.Phase == dftracer.PhaseCounter {
			names[ev.Name]++
		}
	}
	if names["cpu"] == 0 || names["memory"] == 0 || names["page_faults"] == 0 {
		t.Errorf("counters are %v", names)
	}
	if len(r.Processes) == 0 || r.Processes[0].Program != "sh" {
		t.Errorf("processes are %+v", r.Processes)
	}
}

// Out of memory in a control group is recorded as such.
func TestRunOutOfMemory(t *testing.T) {
	group := filepath.Join("/sys/fs/cgroup", fmt.Sprintf("trainspan-test-%d", os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("no control group can be made here: %v", err)
	}
	t.Cleanup(func() { _ = os.Remove(group) })
	if err := os.WriteFile(filepath.Join(group, "memory.max"), []byte("120M"), 0); err != nil {
		t.Skipf("memory cannot be limited here: %v", err)
	}
	_ = os.WriteFile(filepath.Join(group, "memory.swap.max"), []byte("0"), 0)
	dir := t.TempDir()
	s := prepare(t, dir, "--quiet", "--", "runjob", "grow", "400")
	s.Path, s.Args = "/bin/sh", append([]string{"sh", "-c", "echo $$ > " + group + `/cgroup.procs && exec "$@"`, "sh"}, s.Args...)
	if status := s.finish(); status != 128+9 {
		t.Skipf("status %d: the limit has no effect here: %s", status, s.err.String())
	}
	if r, _ := theRun(t, dir); r.EndedBy != rundir.ByMemory || r.OOMKills < 1 {
		t.Errorf("run.json says %+v", r)
	}
}
