package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/jobgen"
)

// fence finds the blocks of code in a page.
var fence = regexp.MustCompile("(?s)```(sh|go)\n(.*?)```")

// doors returns the blocks of the README's three doors as they stand there: how packages
// are made, PyTorch, the program in Go, how it is run, and files.
func doors(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(text), "## Three doors")
	part, _, _ = strings.Cut(part, "\n## ")
	var out, languages []string
	for _, m := range fence.FindAllStringSubmatch(part, -1) {
		languages, out = append(languages, m[1]), append(out, m[2])
	}
	if got := strings.Join(languages, " "); got != "sh sh go sh sh" {
		t.Fatalf("the blocks of the three doors are %q", got)
	}
	return out
}

// newcomer is somebody with an empty folder, and the README.
type newcomer struct {
	t   *testing.T
	dir string
	env []string
}

// paste runs the lines of a block in the shell, each of them has to succeed, and logs how
// long it took.
func (n *newcomer) paste(door, block string) string {
	n.t.Helper()
	began := time.Now()
	cmd := exec.CommandContext(untilDeadline(n.t), "sh", "-eu", "-c", block)
	cmd.Dir, cmd.Env, cmd.WaitDelay = n.dir, n.env, time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		n.t.Fatalf("%s: %v\n%s%s", door, err, block, out)
	}
	n.t.Logf("%s: %.1f s", door, time.Since(began).Seconds())
	return string(out)
}

// put writes a file into the folder.
func (n *newcomer) put(name, text string) {
	n.t.Helper()
	path := filepath.Join(n.dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

// TestDoors pastes the blocks of the README into a shell in an empty folder, in the order
// in which they stand there. What is cloned is this working tree; pip and the go command
// get nothing but what the clone has made, and modules that this machine has.
func TestDoors(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("wheels are for Linux")
	}
	for _, name := range []string{"git", "make", "python3"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	blocks := doors(t)
	n := &newcomer{t: t, dir: t.TempDir()}
	modules := n.environment()

	n.paste("clone and make packages", blocks[0])

	if n.venv() {
		n.put("train.py", content(t, "testdata/train.py"))
	} else {
		t.Log("no PyTorch is here: train.py does nothing")
		n.put("train.py", "print('trained')\n")
	}
	if out := n.paste("PyTorch", blocks[1]); !strings.Contains(out, "COMPLETED") {
		t.Errorf("PyTorch:\n%s", out)
	}

	n.put("first/main.go", blocks[2])
	t.Cleanup(func() { n.forget(modules) })
	if out := n.paste("Go", blocks[3]); !strings.Contains(out, "COMPLETED") || !strings.Contains(out, "Steps 10,") {
		t.Errorf("Go:\n%s", out)
	}

	n.samples()
	out := n.paste("files", blocks[4])
	for _, want := range []string{"SLOW RANK", "PROFILE", "step, median"} {
		if !strings.Contains(out, want) {
			t.Errorf("files: no %q in\n%s", want, out)
		}
	}
}

// environment makes a repository that a clone of the README's address gets, and returns
// where the go command keeps modules.
func (n *newcomer) environment() (modules string) {
	t := n.t
	t.Helper()
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, "TRAINSPAN_") && !strings.HasPrefix(name, "PYTHON") && !strings.HasPrefix(name, "PIP_") && !strings.HasPrefix(name, "MAKE") &&
			!strings.HasPrefix(name, "OTEL_") && name != "GOWORK" && name != "DIST" && name != "VERSION" && name != "MFLAGS" {
			n.env = append(n.env, v)
		}
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	source := t.TempDir()
	n.paste("a repository of this tree", fmt.Sprintf(`git clone -q --no-checkout %[1]q %[2]q
git --git-dir=%[2]q/.git --work-tree=%[1]q add -A
git -C %[2]q -c user.name=test -c user.email=test@localhost commit -q --allow-empty -m "as it is now"`, root, source))
	asked := strings.Split(strings.TrimSpace(n.paste("where modules are", "go env GOMODCACHE GOPROXY")), "\n")
	n.env = append(n.env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url."+source+".insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/trainspan/trainspan",
		"GOPROXY=file://"+asked[0]+"/cache/download,"+asked[1], "GOSUMDB=off")
	return asked[0]
}

// forget takes the module that was made here out of the cache of the machine.
func (n *newcomer) forget(modules string) {
	versions, _ := filepath.Glob(filepath.Join(n.dir, "trainspan/out/release/goproxy/github.com/trainspan/trainspan/@v/*.zip"))
	for _, v := range versions {
		version := strings.TrimSuffix(filepath.Base(v), ".zip")
		n.paste("forget "+version, fmt.Sprintf(`cd %[1]q/github.com/trainspan && chmod -R u+w trainspan@%[2]s && rm -r trainspan@%[2]s
cd %[1]q/cache/download/github.com/trainspan/trainspan/@v && rm -f %[2]s.*`, modules, version))
	}
}

// venv makes an environment for pip, of an interpreter with PyTorch where there is one, and
// puts it first in PATH. It reports whether there is.
func (n *newcomer) venv() (torch bool) {
	make := "python3 -m venv .venv"
	if exec.CommandContext(n.t.Context(), "/usr/bin/python3", "-c", "import torch").Run() == nil {
		torch, make = true, "/usr/bin/python3 -m venv --system-site-packages .venv"
	}
	n.paste("an environment for pip", make)
	for i, v := range n.env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			n.env[i] = "PATH=" + filepath.Join(n.dir, ".venv", "bin") + ":" + path
		}
	}
	return torch
}

// samples makes the files that the last block names: the trace of a job with a slow rank,
// what PyTorch's profiler wrote, two runs.
func (n *newcomer) samples() {
	n.t.Helper()
	for _, job := range []struct {
		dir string
		of  jobgen.Attempt
	}{
		{".", jobgen.Attempt{Ranks: 4, Steps: 60, Slow: 2, Extra: [4]float64{12}}},
		{"base", jobgen.Attempt{Ranks: 2, Steps: 60}},
		{"new", jobgen.Attempt{Ranks: 2, Steps: 60, Seed: 2}},
	} {
		if _, err := jobgen.Write(filepath.Join(n.dir, job.dir), &job.of); err != nil {
			n.t.Fatal(err)
		}
	}
	n.put("profile/rank0.pt.trace.json", content(n.t, "../integrations/pytorch/testdata/overlap.json"))
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
