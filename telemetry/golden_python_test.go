package telemetry_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// pythons are the interpreters under which the scenarios are replayed, if they
// are installed.
var pythons = []string{"python3.9", "python3.11", "python3.13", "python3.14"}

// TestGoldenPython replays the recorded runs through the Python API, and
// compares the output of the program's FileExporter by the same rules.
func TestGoldenPython(t *testing.T) {
	dirs := scenarios(t)
	client, err := filepath.Abs("../integrations/python")
	if err != nil {
		t.Fatal(err)
	}
	names := pythons
	if testing.Short() {
		names = []string{"python3.11"}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			python := interpreter(t, name)
			for _, dir := range dirs {
				t.Run(filepath.Base(dir), func(t *testing.T) { goldenPython(t, python, client, dir) })
			}
		})
	}
}

// interpreter returns the command of a working interpreter, or skips the test.
// It may be in a folder that env.sh of the PyTorch tests has made.
func interpreter(t *testing.T, name string) []string {
	home, _ := os.UserHomeDir()
	more, _ := filepath.Glob(filepath.Join(home, ".pyenv", "versions", name[len("python"):]+"*", "bin", "python3"))
	for _, c := range append(more, name) {
		if path, err := exec.LookPath(c); err == nil && exec.Command(path, "-c", "").Run() == nil {
			return []string{path}
		}
	}
	cache, _ := os.UserCacheDir()
	env, err := filepath.Abs("../integrations/python/testdata/torch/env.sh")
	for _, version := range []string{"2.6", "new"} {
		if err == nil && exists(filepath.Join(cache, "trainspan", "torch-"+version, "usr", "bin", name)) {
			return []string{env, version, name}
		}
	}
	t.Skipf("there is no %s", name)
	return nil
}

func goldenPython(t *testing.T, python []string, client, dir string) {
	s, want, err := loadScenario(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	abs, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	args := append(python[1:len(python):len(python)], "-B", filepath.Join(client, "testdata", "onelogger", "replay.py"), "trainspan.onelogger", filepath.Join(abs, "scenario.json"), out)
	cmd := exec.Command(python[0], args...)
	cmd.Dir = out
	cmd.Env = append(os.Environ(), "PYTHONPATH="+client, "DFTRACER_ENABLE=0", "TRAINSPAN_RING=")
	if text, err := cmd.CombinedOutput(); err != nil || len(text) > 0 {
		t.Fatalf("the Python library: %v, want no error and no output\n%s", err, text)
	}
	text, err := os.ReadFile(filepath.Join(out, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got recording
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	c := &comparison{path: filepath.Join(out, "telemetry.jsonl"), states: got.Final.ExporterStates, configured: got.Final.ExporterStates != nil}
	for _, st := range got.Steps {
		r := result{call: st.Call, lines: st.FileLinesAfter}
		if st.Outcome == "raised" {
			r.err = errors.New(st.ErrorType + ": " + st.ErrorMessage)
		}
		if span, ok := st.Returned.(map[string]any); ok {
			r.span = fmt.Sprint(span["span"], " under ", span["parent"])
		}
		c.results = append(c.results, r)
	}
	c.compare(t, dir, s, want)
}
