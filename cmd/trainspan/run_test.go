//go:build linux

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/job/rundir"
	"github.com/trainspan/trainspan/internal/testkit/gziptest"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"golang.org/x/sys/unix"
)

// programs returns a folder with the commands of TestMain as files.
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
	dir, tmp string      // working directory, the variable for temporary files
}

// clean returns an environment without a launcher.
func clean(dir string, more ...string) []string {
	env := []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "GORACE=atexit_sleep_ms=0"}
	return append(env, more...)
}

// prepare returns a trainspan run that is not started.
func prepare(t *testing.T, dir string, args ...string) *started {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	s := &started{Cmd: exec.Command(filepath.Join(bin, "trainspan"), append([]string{"run"}, args...)...), t: t, dir: dir, tmp: "TMPDIR=" + t.TempDir()}
	s.Dir, s.Env = dir, append(clean(bin), s.tmp)
	hearSignals()
	s.Cmd.Stderr = &s.err
	t.Cleanup(func() { // needed if the telemetry process is killed
		for _, left := range rundir.FindLeft(dir) {
			for _, folder := range left.Folders {
				_ = os.RemoveAll(folder)
			}
		}
	})
	return s
}

// hearSignals makes started programs receive signals that the tests ignore
// because a shell has put them in the background; trainspan keeps ignoring
// them, as nohup requires.
var hearSignals = sync.OnceFunc(func() {
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s) // caught signals are not ignored after exec
		}
	}
})

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
	deadline := time.After(5 * time.Minute) // only a safeguard
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
			s.t.Fatalf("no %q within five minutes", want)
		}
	}
}

// rest returns the remaining lines and the status.
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
	s.settle()
	return s.ProcessState.ExitCode()
}

// finish runs it to its end.
func (s *started) finish() int {
	s.t.Helper()
	s.Cmd.Stdout = &s.out
	return s.status(s.Run())
}

// settle waits until the telemetry process has ended.
func (s *started) settle() {
	s.t.Helper()
	settled(s.t, s.tmp)
}

// settled waits until no telemetry process has that variable.
func settled(t *testing.T, variable string) {
	t.Helper()
	until.True(t, "the end of the telemetry process", func() bool {
		all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		return !slices.ContainsFunc(all, func(path string) bool {
			line, _ := os.ReadFile(path)
			env, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "environ"))
			return bytes.Contains(line, []byte(helperCommand)) && bytes.Contains(env, []byte(variable))
		})
	})
}

// theRun reads the only run.json below a folder, and returns it with its
// folder.
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
		t.Fatalf("found %d run.json below %s, want 1: %v", len(paths), dir, err)
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
		"no interpreter": {[]string{"--", "./script", "6"}, 6, rundir.ByExit, ""},
		"in PATH only":   {[]string{"--", "plain"}, 126, "", ""},
		"directory":      {[]string{"--", "./"}, 126, "", ""},
		"empty":          {[]string{"--", ""}, 127, "", ""},
		"no command":     {nil, 2, "", ""},
		"wrong flag":     {[]string{"--bogus", "--", "true"}, 2, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, mode := range map[string]os.FileMode{"plain": 0o644, "broken": 0o755, "script": 0o755} {
				text := map[string]string{"script": "exit $1"}[file]
				if err := os.WriteFile(filepath.Join(dir, file), []byte(cmp.Or(text, "\x00\x01")), mode); err != nil {
					t.Fatal(err)
				}
			}
			s := prepare(t, dir, c.args...)
			s.Env = append(s.Env, "PATH="+os.Getenv("PATH")+":"+dir)
			if got := s.finish(); got != c.want {
				t.Errorf("status %d, want %d: %s", got, c.want, s.err.String())
			}
			if c.by == "" {
				if _, err := os.Stat(filepath.Join(dir, rundir.Root)); err == nil {
					t.Error("got a directory for a command that was not started, want none")
				}
				return
			}
			r, _ := theRun(t, dir)
			if r.EndedBy != c.by || r.Signal != c.signal || r.State != rundir.Ended || r.Ended == nil {
				t.Errorf("run.json is %+v, want it ended by %v, signal %q", r, c.by, c.signal)
			}
			if c.by == rundir.ByExit && (r.ExitStatus == nil || *r.ExitStatus != c.want) {
				t.Errorf("run.json has exit status %v, want %d", r.ExitStatus, c.want)
			}
		})
	}
}

// TestRunIsTransparent checks that a command runs under trainspan run as
// without it, except for added variables.
func TestRunIsTransparent(t *testing.T) {
	dir := t.TempDir()
	s := prepare(t, dir, "--quiet", "--", "runjob", "self", "", "a b", "--flag=x", "--")
	s.Env = append(s.Env, "SECRET=hunter2", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://backend:4318/v1/traces", "EMPTY=", "PYTHONPATH=/mine")
	s.Stdin = strings.NewReader("input")
	if status := s.finish(); status != 0 {
		t.Fatalf("status %d, want 0: %s", status, s.err.String())
	}
	if s.err.Len() != 0 {
		t.Errorf("with --quiet, stderr is %q, want it empty", s.err.String())
	}
	var saw struct {
		Args, Env []string
		Dir       string
	}
	if err := json.Unmarshal(s.out.Bytes(), &saw); err != nil {
		t.Fatal(err)
	}
	if want := []string{"runjob", "self", "", "a b", "--flag=x", "--"}; !slices.Equal(saw.Args, want) {
		t.Errorf("arguments are %q, want %q", saw.Args, want)
	}
	if saw.Dir != dir {
		t.Errorf("working directory is %s, want %s", saw.Dir, dir)
	}
	for _, v := range s.Env {
		if !slices.Contains(saw.Env, v) && !strings.HasPrefix(v, "PYTHONPATH=") {
			t.Errorf("environment variable %s is missing in the job", v)
		}
	}
	for _, v := range saw.Env {
		name, value, _ := strings.Cut(v, "=")
		known := slices.Contains(s.Env, v) || name == "PWD" || strings.HasPrefix(name, "TRAINSPAN_") ||
			name == "PYTHONPATH" && strings.HasSuffix(value, ":/mine")
		if !known {
			t.Errorf("environment variable %s was added to the job", v)
		}
	}
}

// TestRunKeepsPythonPath checks that the addition to PYTHONPATH does not change
// its other entries: neither an empty one, which is the working directory, nor
// names with invalid UTF-8.
func TestRunKeepsPythonPath(t *testing.T) {
	for name, path := range map[string]string{"empty at its end": "/mine:", "empty": ":/mine", "bytes": "/caf\xe9"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "d\xfc")
			s := prepare(t, t.TempDir(), "-q", "--dir", dir, "--", "sh", "-c", `printf '%s\n%s' "$PYTHONPATH" "$TRAINSPAN_DIR"`)
			s.Env = append(s.Env, "PYTHONPATH="+path)
			if status := s.finish(); status != 0 {
				t.Fatalf("status %d, want 0: %s", status, s.err.String())
			}
			ours, theirs, _ := strings.Cut(s.out.String(), ":")
			if !filepath.IsAbs(ours) || theirs != path+"\n"+dir {
				t.Errorf("the job has PYTHONPATH %q, want the client before %q", s.out.String(), path+"\n"+dir)
			}
			if _, err := os.Stat(filepath.Join(dir, rundir.FileName)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRunWritesNoSecrets checks that files contain only names from a command
// line, and nothing from the environment.
func TestRunWritesNoSecrets(t *testing.T) {
	dir := t.TempDir()
	s := prepare(t, dir, "--", "sh", "-c", "sleep 1.2", "train.py", "--password=hunter2", "--token", "hunter3", "-phunter4", "hunter5")
	s.Env = append(s.Env, "SECRET=hunter6", "OTEL_EXPORTER_OTLP_HEADERS=authorization=hunter7")
	if status := s.finish(); status != 0 {
		t.Fatalf("status %d, want 0: %s", status, s.err.String())
	}
	r, at := theRun(t, dir)
	if r.Program != "sh" || r.Script != "train.py" || !slices.Equal(r.Flags, []string{"-c", "--password", "--token", "-p"}) {
		t.Errorf("run.json has %q, %q, %q; want sh, train.py and flags without values", r.Program, r.Script, r.Flags)
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
			t.Errorf("%s has mode %v, want 0644", path, info.Mode())
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text = gziptest.Text(t, text)
		if bytes.Contains(text, []byte("hunter")) || bytes.Contains(text, []byte("sleep 1.2")) {
			t.Errorf("%s contains a secret", path)
		}
		return nil
	})
	if err != nil || files < 2 {
		t.Errorf("found %d files, want 2 or more: %v", files, err)
	}
}

// TestRunWithoutADirectory checks that the command runs without telemetry if
// the directory cannot be created.
func TestRunWithoutADirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, rundir.Root), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := prepare(t, dir, "--otlp", "--", "sh", "-c", `test -f "$PYTHONPATH/trainspan/dftracer.py" && echo ran; exit 3`)
	if status := s.finish(); status != 3 || s.out.String() != "ran\n" {
		t.Errorf(`status %d, output %q; want 3 and "ran"`, status, s.out.String())
	}
	if !strings.Contains(s.err.String(), "no telemetry") || strings.Count(s.err.String(), "\n") > 2 {
		t.Errorf(`stderr %q, want at most two lines and "no telemetry"`, s.err.String())
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
		t.Errorf(`status %d, output %q, want 4 and "ran": %s`, status, s.out.String(), s.err.String())
	}
}
