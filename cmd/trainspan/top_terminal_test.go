//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"golang.org/x/term"
)

// terminalOf is a command on a separate terminal.
type terminalOf struct {
	t        *testing.T
	cmd      *exec.Cmd
	keyboard *os.File
	tty      *os.File
	screen   vt10x.Terminal
	before   *term.State
	drawn    chan struct{} // closed when all output has been drawn
}

// startOnTerminal starts the command on a new terminal.
func startOnTerminal(t *testing.T, columns, rows int, args ...string) *terminalOf {
	t.Helper()
	return programOnTerminal(t, columns, rows, "trainspan", args...) // this test's binary under another name, see TestMain
}

// programOnTerminal starts a program on a new terminal.
func programOnTerminal(t *testing.T, columns, rows int, name string, args ...string) *terminalOf {
	t.Helper()
	keyboard, tty, err := pty.Open()
	if err != nil {
		t.Skipf("no pseudo-terminal: %v", err)
	}
	x := &terminalOf{t: t, keyboard: keyboard, tty: tty, drawn: make(chan struct{})}
	x.screen = vt10x.New(vt10x.WithSize(columns, rows))
	x.resize(columns, rows)
	if x.before, err = term.GetState(int(tty.Fd())); err != nil {
		t.Fatal(err)
	}
	x.cmd = exec.Command(name, args...)
	races := filepath.Join(t.TempDir(), "race")
	x.cmd.Env = append(os.Environ(), "TERM=xterm-256color", "GORACE=atexit_sleep_ms=0 exitcode=0 log_path="+races)
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = tty, tty, tty
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = x.cmd.Process.Kill() // it has ended if all went well
		_ = tty.Close()
		<-x.drawn
		_ = keyboard.Close()
		// The terminal library's reader races with itself when a program ends. Any
		// other race is an error of trainspan.
		found, _ := filepath.Glob(races + ".*")
		for _, name := range found {
			if text, err := os.ReadFile(name); err != nil || !bytes.Contains(text, []byte("(*TerminalReader).StreamEvents")) {
				t.Errorf("program on the terminal: %s, %v; want it to end in StreamEvents", text, err)
			}
		}
	})
	go func() {
		defer close(x.drawn)
		// The loop does not use io.Copy: a read may end inside of a character, and the
		// screen accepts only whole ones.
		for r := bufio.NewReader(keyboard); x.screen.Parse(r) == nil; { // until the terminal is closed
		}
	}()
	return x
}

func (x *terminalOf) resize(columns, rows int) {
	x.t.Helper()
	x.screen.Resize(columns, rows)
	if err := pty.Setsize(x.keyboard, &pty.Winsize{Cols: uint16(columns), Rows: uint16(rows)}); err != nil {
		x.t.Fatal(err)
	}
}

func (x *terminalOf) press(keys string) {
	x.t.Helper()
	if _, err := io.WriteString(x.keyboard, keys); err != nil {
		x.t.Fatal(err)
	}
}

// see waits until a text is on the screen.
func (x *terminalOf) see(want string) {
	x.t.Helper()
	until.Nil(x.t, func() error {
		if strings.Contains(x.screen.String(), want) {
			return nil
		}
		return fmt.Errorf("%q is not on the screen:\n%s", want, x.screen)
	})
}

// end waits until the command has ended well, and checks that it restored the
// terminal.
func (x *terminalOf) end() {
	x.t.Helper()
	if err := x.cmd.Wait(); err != nil {
		x.t.Errorf("%v\n%s", err, x.screen)
	}
	after, err := term.GetState(int(x.tty.Fd()))
	if err != nil {
		x.t.Fatal(err)
	}
	if !reflect.DeepEqual(x.before, after) {
		x.t.Errorf("the terminal has other settings than before: %+v, %+v", x.before, after)
	}
	until.Nil(x.t, func() error {
		if x.givenBack() {
			return nil
		}
		return fmt.Errorf("the terminal was not restored:\n%s", x.screen)
	})
}

// givenBack reports whether the terminal shows its former contents, and the
// cursor.
func (x *terminalOf) givenBack() bool {
	x.screen.Lock()
	defer x.screen.Unlock()
	return x.screen.Mode()&vt10x.ModeAltScreen == 0 && x.screen.CursorVisible()
}

// TestTopOnATerminal checks that the screen follows a directory: it is empty at
// first, then has files that end in the middle of a line, and then longer ones.
func TestTopOnATerminal(t *testing.T) {
	dir := t.TempDir()
	x := startOnTerminal(t, 100, 50, "top", dir, "--interval", "50ms")
	x.see("Waiting for telemetry")
	put := func(steps, cut int) {
		t.Helper()
		source := makeJob(t, t.TempDir(), simjob.Attempt{Ranks: 4, Steps: steps, Killed: true, Slow: 2, Extra: [4]float64{12}})
		files, err := os.ReadDir(source)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(filepath.Join(source, f.Name()))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, f.Name()), text[:len(text)-cut], 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	put(60, 21)
	x.see("0 … 5")
	x.see("STEPS")
	put(200, 0)
	x.see("0 … 198")
	x.see("Rank 2's")
	x.see("nothing new at")
	x.press("?")
	x.see("read the files now")
	x.press("?")
	x.resize(70, 12)
	x.see("lines 1 to 10 of")
	x.press("G")
	x.see("DATA")
	x.press("q")
	x.end()
}

// TestTopEndsOnAnInterrupt checks that Ctrl-C and a signal end top like the key
// q.
func TestTopEndsOnAnInterrupt(t *testing.T) {
	for name, stop := range map[string]func(x *terminalOf){
		"Ctrl-C":  func(x *terminalOf) { x.press("\x03") },
		"SIGTERM": func(x *terminalOf) { check(x.cmd.Process.Signal(syscall.SIGTERM)) },
	} {
		t.Run(name, func(t *testing.T) {
			x := startOnTerminal(t, 80, 24, "top", t.TempDir())
			x.see("Waiting for telemetry")
			stop(x)
			x.end()
		})
	}
}

// TestPagerHandlesCtrlC checks that trainspan waits for the pager, which handles
// Ctrl-C itself, any number of times.
func TestPagerHandlesCtrlC(t *testing.T) {
	pager := filepath.Join(t.TempDir(), "pager")
	script := "#!/bin/sh\ntrap 'echo interrupt-$((n=n+1))' INT\ncat > /dev/null\necho ready\nuntil read line < /dev/tty; do :; done\necho \"got $line\"\n"
	if err := os.WriteFile(pager, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PAGER", pager)
	x := startOnTerminal(t, 80, 24, "help", "screen")
	x.see("ready")
	for n := range 3 {
		x.press("\x03")
		x.see(fmt.Sprintf("interrupt-%d", n+1))
	}
	x.press("q\r")
	x.see("got q")
	x.end()
}
