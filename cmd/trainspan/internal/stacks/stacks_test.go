//go:build linux

package stacks_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/cmd/trainspan/internal/stacks"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
	"github.com/trainspan/trainspan/internal/testkit/until"
)

// program sets up a signal like the client, then something else, and waits.
const program = `
import faulthandler, os, signal, sys
n, path = signal.SIGRTMAX - 7, os.path.join(sys.argv[1], "stack-%%d-%%d.names" %% (os.getpid(), signal.SIGRTMAX - 7))
fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
faulthandler.register(n, file=fd, all_threads=True, chain=False)
%s
def waits():
    open(os.path.join(sys.argv[1], "there"), "w").close()
    os.read(0, 1)
waits()
`

// TestTake checks that stacks come from py-spy if it exists and works,
// otherwise from a process that has the signal set up. To other processes
// nothing is sent: they end regularly.
func TestTake(t *testing.T) {
	for name, tt := range map[string]struct {
		then string // in the program
		spy  string // a py-spy
		want string // in the stacks, empty for none
	}{
		"faulthandler":          {want: " in waits\n"},
		"a handler of its own":  {then: "signal.signal(n, lambda *a: os._exit(3)); os.unlink(path)"},
		"no handler any more":   {then: "faulthandler.unregister(n)"},
		"another file":          {then: "os.close(fd); os.open(path + '2', os.O_WRONLY | os.O_CREAT)"},
		"blocked":               {then: "signal.pthread_sigmask(signal.SIG_BLOCK, [n])"},
		"py-spy":                {spy: "printf 'Process %s: python3 a.py --password x\\nPython v3\\n\\nThread 7 (idle): \"MainThread\"\\n    f (a.py:1)\\n' $3", want: ": python\nPython v3\n\nThread 7"},
		"py-spy without rights": {spy: "echo no permission >&2; exit 1", want: " in waits\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, bin := t.TempDir(), t.TempDir()
			if tt.spy != "" {
				if err := os.WriteFile(filepath.Join(bin, "py-spy"), []byte("#!/bin/sh\n"+tt.spy+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command(pyrun.Interpreter(t), "-c", fmt.Sprintf(program, tt.then), dir)
			cmd.Stderr = os.Stderr
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", bin+":/bin:/usr/bin")
			until.True(t, "the program waits", func() bool { _, err := os.Stat(filepath.Join(dir, "there")); return err == nil })
			text, err := stacks.Take(t.Context(), cmd.Process.Pid, time.Minute, t.TempDir(), dir)
			if tt.want == "" && (text != nil || !errors.Is(err, stacks.ErrNone)) {
				t.Errorf("Take() = %q, %v, want %v", text, err, stacks.ErrNone)
			} else if tt.want != "" && (err != nil || !strings.Contains(string(text), tt.want)) {
				t.Errorf("Take() = %q, %v, want %q in it", text, err, tt.want)
			}
			if strings.Contains(string(text), "password") {
				t.Errorf("Take() = %q, want no arguments of the process", text)
			}
			_ = in.Close() // it reads to the end
			if err := cmd.Wait(); err != nil {
				t.Errorf("the program ended with %v, want a good end", err)
			}
		})
	}
}
