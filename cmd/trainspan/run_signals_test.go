//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/trainspan/trainspan/internal/testkit/until"
	"golang.org/x/sys/unix"
)

// TestRunPassesSignalsOnce checks that a signal reaches the job once, however
// it was sent.
func TestRunPassesSignalsOnce(t *testing.T) {
	for name, c := range map[string]struct {
		apart []string // the job moves to another process group
		send  func(pid int) error
	}{
		"to the process":            {nil, func(pid int) error { return syscall.Kill(pid, syscall.SIGUSR1) }},
		"to the group":              {nil, func(pid int) error { return syscall.Kill(-pid, syscall.SIGUSR1) }},
		"to the process, job apart": {[]string{"apart"}, func(pid int) error { return syscall.Kill(pid, syscall.SIGUSR1) }},
		"to the group, job apart":   {[]string{"apart"}, func(pid int) error { return syscall.Kill(-pid, syscall.SIGUSR1) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := prepare(t, t.TempDir(), append([]string{"--quiet", "--", "runjob", "signals"}, c.apart...)...)
			s.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			s.begin()
			s.expect("ready")
			for range 2 {
				if err := c.send(s.Process.Pid); err != nil {
					t.Fatal(err)
				}
				s.expect("user defined signal 1")
			}
			if err := syscall.Kill(s.Process.Pid, syscall.SIGUSR2); err != nil {
				t.Fatal(err)
			}
			if lines, status := s.rest(); status != 0 || !slices.Equal(lines, []string{"end"}) {
				t.Errorf(`status %d, then lines %q; want 0 and "end"`, status, lines)
			}
		})
	}
}

// TestRunEndsByASignal checks that a signal that the command does not handle
// ends it, and the status shows this.
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
				t.Errorf("status %d, want %d", status, 128+15)
			}
			if r, _ := theRun(t, dir); r.Signal != "SIGTERM" {
				t.Errorf("run.json is %+v, want signal SIGTERM", r)
			}
		})
	}
}

// TestRunWithoutAReader checks that a reader of standard error that has gone ends neither the
// command nor trainspan run.
func TestRunWithoutAReader(t *testing.T) {
	s := prepare(t, t.TempDir(), "--", "sh", "-c", "exit 7")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	s.Cmd.Stderr = w
	s.begin()
	_ = w.Close()
	if _, status := s.rest(); status != 7 {
		t.Errorf("status %d, want that of the command, 7", status)
	}
}

// TestRunKeepsIgnoredSignals checks that signals ignored when trainspan run
// starts stay ignored, as under nohup.
func TestRunKeepsIgnoredSignals(t *testing.T) {
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `trap "" HUP INT; exec trainspan run --quiet -- sh -c 'grep SigIgn /proc/self/status'`)
	tmp := "TMPDIR=" + t.TempDir()
	cmd.Dir, cmd.Env = t.TempDir(), append(clean(bin), tmp)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	settled(t, tmp)
	mask, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(string(out), "SigIgn:")), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if mask&(1<<(s-1)) == 0 {
			t.Errorf("%v is not ignored in the job, want it ignored: mask %x", s, mask)
		}
	}
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGPIPE} {
		if mask&(1<<(s-1)) != 0 {
			t.Errorf("%v is ignored in the job, want it not ignored: mask %x", s, mask)
		}
	}
}

// TestRunAtATerminal checks that Ctrl-C at a terminal reaches the job once, and
// trainspan run waits for it.
func TestRunAtATerminal(t *testing.T) {
	terminal, line := openTerminal(t)
	s := prepare(t, t.TempDir(), "--quiet", "--", "runjob", "signals")
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
	if err := syscall.Kill(s.Process.Pid, syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	if lines, status := s.rest(); status != 0 || !slices.Equal(lines, []string{"end"}) {
		t.Errorf(`status %d, then lines %q; want 0 and "end"`, status, lines)
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
	go io.Copy(io.Discard, terminal) //nolint:errcheck // the terminal echoes its input
	return terminal, line
}

// TestRunReapsOrphans checks that orphans of the command are reaped.
func TestRunReapsOrphans(t *testing.T) {
	s := prepare(t, t.TempDir(), "--quiet", "--", "sh", "-c", "(sleep 0.3 & sleep 0.3 &) ; echo ready; read x")
	in, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.begin()
	s.expect("ready")
	two := func() bool { return len(children(s.Process.Pid)) == 2 } // the command and the telemetry process
	until.True(t, "orphans", func() bool { return len(children(s.Process.Pid)) == 4 || two() })
	until.True(t, "their end", two)
	_ = in.Close()
	s.rest()
}

// TestRunAsProcessOne checks that orphans are reaped by process 1 of a
// container too. The orphan is gone when no signal can be sent to it: a zombie
// that is not reaped accepts signals.
func TestRunAsProcessOne(t *testing.T) {
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(filepath.Join(bin, "trainspan"), "run", "--quiet", "--", "sh", "-c", `
orphan=$(sleep 0.2 >/dev/null & echo $!)
for try in $(seq 600); do
	kill -0 $orphan 2>/dev/null || kill -9 $$
	sleep 0.1
done
echo zombie`)
	cmd.Dir, cmd.Env = dir, clean(bin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skipf("no process namespace can be made here: %v", err)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 128+9 {
		t.Errorf("as process 1: %v, want exit status 137: %s", err, out)
	}
}
