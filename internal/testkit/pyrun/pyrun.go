// Package pyrun runs Python programs with the client of this repository in
// tests. They are skipped without Python 3.8 or later.
package pyrun

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// Interpreter returns the path of python3, or skips the test. The variable
// PYTHON selects another one.
func Interpreter(t testing.TB) string {
	t.Helper()
	path, err := interpreter()
	if err != nil {
		t.Skip(err)
	}
	return path
}

// The interpreter is started once to print its own path: the one in PATH may be
// a script that searches for it at each start.
var interpreter = sync.OnceValues(func() (string, error) {
	name := cmp.Or(os.Getenv("PYTHON"), "python3")
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("no %s: %w", name, err)
	}
	own, err := exec.Command(path, "-c", "import sys; sys.exit(sys.version_info < (3, 8) or print(sys.executable))").Output()
	if err != nil {
		return "", fmt.Errorf("%s is older than Python 3.8, or does not run: %w", path, err)
	}
	return strings.TrimSpace(string(own)), nil
})

// Client returns the folder of the package trainspan.
func Client() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..", "integrations", "python")
}

// Command prepares a program: its text, or the path of a file that ends in .py.
// Ring buffers go to the folder rings, unless that is empty.
func Command(t testing.TB, rings, program string, args ...string) *exec.Cmd {
	t.Helper()
	python := Interpreter(t)
	if !strings.HasSuffix(program, ".py") {
		path := filepath.Join(t.TempDir(), "program.py")
		if err := os.WriteFile(path, []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		program = path
	}
	cmd := exec.Command(python, append([]string{program}, args...)...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TRAINSPAN_") && !strings.HasPrefix(v, "DFTRACER_") && !strings.HasPrefix(v, "PYTHON") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "PYTHONPATH="+Client(), "PYTHONDONTWRITEBYTECODE=1")
	if rings != "" {
		cmd.Env = append(cmd.Env, "TRAINSPAN_RING="+rings)
	}
	return cmd
}

// Run runs a program, which must succeed, and returns its output. It fails the
// test if the program wrote to its standard error.
func Run(t testing.TB, rings, program string, args ...string) string {
	t.Helper()
	return Output(t, Command(t, rings, program, args...))
}

// Output runs a command to its end, as Run does.
func Output(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd.Args, err, &out, &errs)
	}
	if errs.Len() > 0 {
		t.Fatalf("%v wrote to its standard error:\n%s", cmd.Args, &errs)
	}
	return out.String()
}
