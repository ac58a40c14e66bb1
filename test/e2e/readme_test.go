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

	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// fence matches the blocks of code in a page.
var fence = regexp.MustCompile("(?s)```(sh|go)\n(.*?)```")

// readmeBlocks returns the unchanged blocks of the README from the installation on:
// make install, PyTorch, the program in Go, how to run it, and files.
func readmeBlocks(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(text), "## Install")
	part, _, _ = strings.Cut(part, "\n## Read on")
	var out, languages []string
	for _, m := range fence.FindAllStringSubmatch(part, -1) {
		languages, out = append(languages, m[1]), append(out, m[2])
	}
	if got := strings.Join(languages, " "); got != "sh sh go sh sh" {
		t.Fatalf("the languages of the blocks are %q, want \"sh sh go sh sh\"", got)
	}
	return out
}

// shellUser is a user with an empty folder and the README.
type shellUser struct {
	t   *testing.T
	dir string
	env []string
}

// paste runs the lines of a block in the shell, which must all succeed, and
// logs their duration.
func (n *shellUser) paste(name, block string) string {
	n.t.Helper()
	began := time.Now()
	cmd := exec.CommandContext(untilDeadline(n.t), "sh", "-eu", "-c", block)
	cmd.Dir, cmd.Env, cmd.WaitDelay = n.dir, n.env, time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		n.t.Fatalf("%s: %v\n%s%s", name, err, block, out)
	}
	n.t.Logf("%s: %.1f s", name, time.Since(began).Seconds())
	return string(out)
}

// put writes a file into the folder.
func (n *shellUser) put(name, text string) {
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

// TestBlocksOfTheREADME pastes the blocks of the README into a shell in an empty folder
// beside a copy of the source, in their order. pip uses only the copy, and the
// go command only modules on this machine.
func TestBlocksOfTheREADME(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("wheels are for Linux")
	}
	for _, name := range []string{"git", "make", "python3"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	blocks := readmeBlocks(t)
	n := &shellUser{t: t, dir: t.TempDir()}
	n.environment()
	torch := n.venv()

	if out := n.paste("make install", blocks[0]); !strings.Contains(out, "2/2 installing the command and the Python client into "+n.dir) {
		t.Errorf("make install: want 2/2 in\n%s", out)
	}
	n.paste("the client is there", `python -c 'import trainspan, trainspan.dftracer, trainspan_torch'; command -v trainspan | grep -F "$PWD/.venv"`)

	if torch {
		n.put("train.py", content(t, "testdata/train.py"))
	} else {
		t.Log("no PyTorch is here: train.py does nothing")
		n.put("train.py", "print('trained')\n")
	}
	if out := n.paste("PyTorch", blocks[1]); !strings.Contains(out, "COMPLETED") {
		t.Errorf("PyTorch:\n%s, want \"COMPLETED\" in it", out)
	}

	n.put("first/main.go", blocks[2])
	if out := n.paste("Go", blocks[3]); !strings.Contains(out, "COMPLETED") || !strings.Contains(out, "200 steps of ") {
		t.Errorf("Go: want COMPLETED and 200 steps in\n%s", out)
	}

	n.samples()
	out := n.paste("files", blocks[4])
	for _, want := range []string{"SLOW RANK", "PROFILE", "in steps"} {
		if !strings.Contains(out, want) {
			t.Errorf("files: want %q in\n%s", want, out)
		}
	}
}

// environment copies the current state of this tree into the folder.
func (n *shellUser) environment() {
	t := n.t
	t.Helper()
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, "TRAINSPAN_") && !strings.HasPrefix(name, "PYTHON") && !strings.HasPrefix(name, "PIP_") && !strings.HasPrefix(name, "MAKE") &&
			!strings.HasPrefix(name, "OTEL_") && name != "GOWORK" && name != "DIST" && name != "VERSION" && name != "MFLAGS" {
			n.env = append(n.env, v)
		}
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	n.paste("a copy of this tree", fmt.Sprintf(`git clone -q --no-checkout %[1]q trainspan
git --git-dir=trainspan/.git --work-tree=%[1]q add -A
git -C trainspan -c user.name=test -c user.email=test@localhost commit -q --allow-empty -m "as it is now"
git -C trainspan checkout -q -f HEAD`, root))
	modules := strings.Split(strings.TrimSpace(n.paste("where modules are", "go env GOMODCACHE GOPROXY")), "\n")
	n.env = append(n.env, "GOPROXY=file://"+modules[0]+"/cache/download,"+modules[1], "GOSUMDB=off")
}

// venv makes a Python environment for pip, with an interpreter that has PyTorch
// if there is one, and puts it first in PATH. It reports whether it has
// PyTorch.
func (n *shellUser) venv() (torch bool) {
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

// samples makes the files that the last block names: the trace of a job with a
// slow rank, a profile of PyTorch's profiler, two runs.
func (n *shellUser) samples() {
	n.t.Helper()
	for _, job := range []struct {
		dir string
		of  simjob.Attempt
	}{
		{".", simjob.Attempt{Ranks: 4, Steps: 60, Slow: 2, Extra: [4]float64{12}}},
		{"base", simjob.Attempt{Ranks: 2, Steps: 60}},
		{"new", simjob.Attempt{Ranks: 2, Steps: 60, Seed: 2}},
	} {
		if _, err := job.of.Write(filepath.Join(n.dir, job.dir)); err != nil {
			n.t.Fatal(err)
		}
	}
	n.put("profile/rank0.pt.trace.json", content(n.t, "../../internal/ingest/torch/testdata/overlap.json"))
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
