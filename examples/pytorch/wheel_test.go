package pytorch

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/testkit/built"
	"github.com/trainspan/trainspan/internal/testkit/until"
)

// TestWheel builds the wheel of this machine twice, installs it with pip into
// an environment that has only torch, without a network, and trains there.
func TestWheel(t *testing.T) {
	if testing.Short() {
		t.Skip("trains with PyTorch")
	}
	if runtime.GOOS != "linux" {
		t.Skip("wheels are for Linux")
	}
	python, err := interpreter()
	if err != nil {
		t.Skip(err)
	}
	if out, err := exec.Command(python, "-m", "pip", "--version").CombinedOutput(); err != nil {
		t.Skipf("no pip: %s", out)
	}
	path := built.Command(t)
	dir := t.TempDir()
	do := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, "TRAINSPAN_") && !strings.HasPrefix(v, "PYTHON") && !strings.HasPrefix(v, "DFTRACER_") {
				cmd.Env = append(cmd.Env, v)
			}
		}
		cmd.Env = append(cmd.Env, "DFTRACER_ENABLE=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
		return string(out)
	}

	// As tools/release does, with commands in folders of their platforms.
	platform := filepath.Join(dir, "linux_"+runtime.GOARCH)
	command := filepath.Join(platform, "trainspan")
	notices := filepath.Join(dir, "notices")
	text, err := os.ReadFile(path)
	for _, err := range []error{err, os.Mkdir(platform, 0o700), os.WriteFile(command, text, 0o700), os.WriteFile(notices, []byte("MIT\n"), 0o600)} { //nolint:gosec // it is run
		if err != nil {
			t.Fatal(err)
		}
	}
	var wheels [2][]byte
	var wheel string
	for i := range wheels {
		out := filepath.Join(dir, []string{"one", "two"}[i])
		if err := os.Mkdir(out, 0o700); err != nil {
			t.Fatal(err)
		}
		wheel = filepath.Join(out, strings.TrimSpace(do(python, "../../integrations/python/wheels.py", out, "v1.2.3-4-g0123456", notices, command)))
		if wheels[i], err = os.ReadFile(wheel); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(wheels[0], wheels[1]) {
		t.Error("two wheels of the same files differ")
	}
	if name := filepath.Base(wheel); !strings.HasPrefix(name, "trainspan-1.2.3.post4+g0123456-py3-none-manylinux_2_17_") {
		t.Errorf("the wheel is called %s, want it to begin with \"trainspan-1.2.3.post4+g0123456-py3-none-manylinux_2_17_\"", name)
	}

	venv := filepath.Join(dir, "venv")
	do(python, "-m", "venv", "--without-pip", "--system-site-packages", venv) // they have torch
	in := func(name string) string { return filepath.Join(venv, "bin", name) }
	do(python, "-m", "pip", "--python", in("python"), "install", "--no-index", "--disable-pip-version-check", wheel)
	if got := do(in("python"), "-c", "from importlib.metadata import version; print(version('trainspan'))"); got != "1.2.3.post4+g0123456\n" {
		t.Errorf("the version is %q, want %q", got, "1.2.3.post4+g0123456\n")
	}

	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "text.md"), bytes.Repeat([]byte("for x, y in train: optimizer.zero_grad()\n"), 4000), 0o600); err != nil {
		t.Fatal(err)
	}
	// train returns the number of recorded steps, and the content of run.json.
	train := func(run ...string) (steps int, says string) {
		t.Helper()
		at, err := os.MkdirTemp("", "trainspan-wheel-*")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			until.True(t, "the files of the run are removed", func() bool { return os.RemoveAll(at) == nil })
		})
		do(run[0], append(run[1:], "run", "--quiet", "--dir", at, "--", in("python"), "launch.py", "--ranks", "1", "train.py",
			"--root", data, "--steps", "5", "--epochs", "1", "--width", "32", "--length", "32", "--out", t.TempDir())...)
		var record []byte
		until.True(t, "the run has ended", func() bool { // under load it ends shortly after the command
			record, _ = os.ReadFile(filepath.Join(at, "run.json"))
			return bytes.Contains(record, []byte(`"state": "ended"`))
		})
		files, err := filepath.Glob(filepath.Join(at, "trace-*.pfw.gz"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			steps += read(t, f).count["pipeline/train.iteration"]
		}
		return steps, string(record)
	}
	for name, run := range map[string][]string{"the command": {in("trainspan")}, "python -m": {in("python"), "-m", "trainspan"}} {
		if steps, says := train(run...); steps != 5 || strings.Contains(says, "another version") {
			t.Errorf("%s: %d steps, want 5 and no warning of another version\n%s", name, steps, says)
		}
	}

	// Spans of the program without the command, which imports them afterwards.
	ring := filepath.Join(dir, "ring")
	do(in("python"), "-c", "from trainspan.dftracer import ai, dftracer; log = dftracer.initialize_log("+quoted(filepath.Join(ring, "t.pfw"))+")\nwith ai.compute.forward: pass\nlog.finalize()")
	do(in("python"), "-m", "trainspan", "trace", "import", ring)
	files, err := filepath.Glob(filepath.Join(ring, "*.pfw.gz"))
	if err != nil || len(files) != 1 || read(t, files[0]).count["compute/forward"] != 1 {
		t.Errorf("files %v, %v; want one with one forward", files, err)
	}

	// A client of another version is reported.
	there := strings.TrimSpace(do(in("python"), "-c", "import trainspan.dftracer; print(trainspan.dftracer.__file__)"))
	f, err := os.OpenFile(there, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString("new = 1\n")
	}
	if err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	if steps, says := train(in("trainspan")); steps != 5 || !strings.Contains(says, "another version of the client ("+there+")") {
		t.Errorf("%d steps, want 5 and a warning of another version\n%s", steps, says)
	}
}

func quoted(path string) string { return "'" + path + "'" }
