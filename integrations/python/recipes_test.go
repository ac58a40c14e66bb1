package python_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/testkit/built"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
)

// recipes returns the programs of docs/guide/recipes.md by the titles of its
// sections.
func recipes(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide", "recipes.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```python\n(.*?)```")
	all := make(map[string][]string)
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		for _, m := range block.FindAllStringSubmatch(body, -1) {
			all[title] = append(all[title], m[1])
		}
	}
	return all
}

// frameworks runs Python programs in a folder, with the frameworks of the recipes.
type frameworks struct{ dir, command string }

// newFrameworks skips the test if the frameworks cannot be installed.
func newFrameworks(t *testing.T) *frameworks {
	t.Helper()
	if os.Getenv("TRAINSPAN_RECIPES") != "1" {
		t.Skip("tools/ci/recipes runs it: it installs frameworks")
	}
	k := &frameworks{t.TempDir(), built.Command(t)}
	install := k.shell(t, "true")
	install.Env = append(install.Env, "HOME="+os.Getenv("HOME")) // it may have a Python
	out, err := install.CombinedOutput()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) && failed.ExitCode() == 75 {
		t.Skipf("%s", out)
	}
	if err != nil {
		t.Fatalf("installing the frameworks: %v\n%s", err, out)
	}
	return k
}

// shell returns a shell command in the environment of the recipes, with
// trainspan in PATH.
func (k *frameworks) shell(t *testing.T, text string) *exec.Cmd {
	t.Helper()
	env, err := filepath.Abs(filepath.Join("testdata", "recipes", "env.sh"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(env, "sh", "-c", text)
	cmd.Dir = k.dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TRAINSPAN_") && !strings.HasPrefix(v, "DFTRACER_") && !strings.HasPrefix(v, "PYTHON") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(k.command)+":"+os.Getenv("PATH"), "XDG_CACHE_HOME="+cache, "HOME="+k.dir, "PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=1",
		"WANDB_DIR="+k.dir, "RAY_USAGE_STATS_ENABLED=0", "MLFLOW_TRACKING_URI=file:./mlruns", "MLFLOW_ALLOW_FILE_STORE=true",
		"RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S=600", "RAY_worker_register_timeout_seconds=600", "RAY_gcs_server_port_wait_time_s=600") // a busy machine takes long
	return cmd
}

// write writes a program.
func (k *frameworks) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(k.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs a shell command, which must succeed.
func (k *frameworks) run(t *testing.T, text string, env ...string) string {
	t.Helper()
	cmd := k.shell(t, text)
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", text, err, out)
	}
	return string(out)
}

// TestRecipes checks that each training program of docs/guide/recipes.md runs
// unchanged, and that its steps and their parts are recorded.
func TestRecipes(t *testing.T) {
	all := recipes(t)
	for title, c := range map[string]struct {
		steps, ranks int
		count        map[string]int // of all processes
	}{
		"JAX":       {20, 1, map[string]int{"dataloader/fetch.iter": 20, "compute/update": 20, "compile/graph_compile": 1, "metric/metric": 20}},
		"Keras":     {24, 1, map[string]int{"dataloader/fetch.iter": 24 + 3, "pipeline/evaluate": 3, "metric/metric": 24}},
		"XGBoost":   {20, 1, map[string]int{"dataloader/fetch.iter": 1, "metric/metric": 20}},
		"LightGBM":  {20, 1, map[string]int{"metric/metric": 20}},
		"Ray Train": {20, 2, map[string]int{"dataloader/fetch.iter": 40, "compute/update": 40, "metric/metric": 40}},
	} {
		t.Run(title, func(t *testing.T) {
			k := newFrameworks(t)
			if len(all[title]) != 1 {
				t.Fatalf("docs/guide/recipes.md has %d programs in the section %s, want 1", len(all[title]), title)
			}
			if title == "Ray Train" {
				// Its parts have 30 seconds to start, which a busy machine may exceed. The second time they are in memory.
				cmd := k.shell(t, `for i in 1 2 3; do timeout 240 python -c "import ray; ray.init(num_cpus=2, include_dashboard=False); ray.shutdown()" && exit 0; done; exit 1`)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Skipf("no cluster of Ray starts here: %v\n%s", err, out)
				}
			}
			k.write(t, "train.py", all[title][0])
			k.run(t, "trainspan run --quiet --no-resources --dir run -- python train.py")
			var r runReport
			if err := json.Unmarshal([]byte(k.run(t, "trainspan report --json run")), &r); err != nil {
				t.Fatal(err)
			}
			if r.Steps.Count != c.steps || len(r.Ranks) != c.ranks {
				t.Errorf("%d steps on %d ranks, want %d on %d", r.Steps.Count, len(r.Ranks), c.steps, c.ranks)
			}
			t.Logf("row: %s | %d / %d | %s", title, c.steps, r.Steps.Count, r.row(k.run(t, "trainspan report run")))
			files, err := filepath.Glob(filepath.Join(k.dir, "run", "trace-*.pfw.gz"))
			if err != nil {
				t.Fatal(err)
			}
			got := make(map[string]int)
			for _, f := range files {
				for name, n := range readTrace(t, f).count {
					got[name] += n
				}
			}
			for name, n := range c.count {
				if got[name] != n {
					t.Errorf("%d of %s, want %d: %v", got[name], name, n, got)
				}
			}
		})
	}
}

// trained is a program for the recipes of ts.load.
const trained = `
import time
import trainspan as ts
for i in range(12):
    with ts.step():
        with ts.span("data"): time.sleep(0.001)
        with ts.span("forward"): time.sleep(0.002)
    ts.metric(loss=1 / (i + 1), lr=0.1)
ts.metric(accuracy=0.5)
`

// TestTrackers checks that each program of docs/guide/recipes.md that passes a
// run to an experiment tracker runs unchanged, and that the tracker gets the
// numbers.
func TestTrackers(t *testing.T) {
	all := recipes(t)
	for title, c := range map[string]struct {
		files string // below the folder
		want  []string
	}{
		"Weights & Biases": {"wandb/offline-run-*/*.wandb", []string{"trainspan/step_ms", "trainspan/productive_s", "trainspan/verdict"}},
		"MLflow":           {"mlruns/*/*/*/*", []string{"trainspan.productive_s", "Completed.", "Steps      12"}},
		"TensorBoard":      {"logs/events*", []string{"trainspan/step_ms", "trainspan/data_ms", "loss", "Steps      12"}},
	} {
		t.Run(title, func(t *testing.T) {
			k := newFrameworks(t)
			if len(all[title]) != 1 {
				t.Fatalf("docs/guide/recipes.md has %d programs in the section %s, want 1", len(all[title]), title)
			}
			k.write(t, "train.py", trained)
			k.write(t, "track.py", all[title][0])
			k.run(t, "trainspan run --quiet --no-resources -- python train.py")
			k.run(t, "python track.py", "PYTHONPATH="+pyrun.Client())
			files, err := filepath.Glob(filepath.Join(k.dir, c.files))
			if err != nil || len(files) == 0 {
				t.Fatalf("%s: files %v, %v; want one or more", c.files, files, err)
			}
			text := ""
			for _, f := range files {
				if data, err := os.ReadFile(f); err == nil { // folders cannot be read
					text += filepath.Base(f) + "\n" + string(data)
				}
			}
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("want %q in the files %v", want, files)
				}
			}
		})
	}
}

// TestNotebook checks that the cells of docs/guide/recipes.md run in a kernel,
// and show the first screen and a table.
func TestNotebook(t *testing.T) {
	k := newFrameworks(t)
	cells, err := json.Marshal(recipes(t)["Notebooks"])
	if err != nil {
		t.Fatal(err)
	}
	k.write(t, "train.py", trained)
	k.write(t, "cells.json", string(cells))
	k.write(t, "notebook.py", `
import json, nbformat
from nbclient import NotebookClient
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in json.load(open("cells.json"))])
NotebookClient(book, timeout=600, kernel_name="python3").execute()
for cell in book.cells:
    for out in cell.outputs:
        print(out.get("data", {}).get("text/html", out.get("text", "")))
`)
	out := k.run(t, "python notebook.py", "PYTHONPATH="+pyrun.Client())
	for _, want := range []string{"<pre>", "Steps      12", "<th>forward_ns</th>"} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in the notebook:\n%s", want, out)
		}
	}
}

// TestTables checks the tables of a run that ts.load returns by its id, for
// Arrow, pandas and polars.
func TestTables(t *testing.T) {
	k := newFrameworks(t)
	k.write(t, "train.py", trained)
	k.write(t, "look.py", `
import polars
import trainspan as ts
run = ts.load("train.1")
print(run.steps.num_rows, run.metrics.column_names, run.metrics.num_rows)
print(run.metrics["loss"].to_pylist()[:2], run.metrics["accuracy"].to_pylist()[-1], run.metrics["step"].to_pylist()[:2])
print(sorted(set(run.to_pandas("spans").name)))
print(run.to_pandas("metrics").lr.max(), polars.from_arrow(run.metrics).height, run.ranks[0]["rank"], run.account["wall_ns"] > 0, run.findings["outcome"])
try:
    ts.load("train.7")
except FileNotFoundError as e:
    print(str(e).partition("(")[0])
`)
	k.run(t, "trainspan run --quiet --no-resources -- python train.py")
	got := k.run(t, "python look.py", "PYTHONPATH="+pyrun.Client())
	want := `12 ['rank', 'attempt', 'step', 'ts', 'loss', 'lr', 'accuracy'] 13
[1.0, 0.5] 0.5 [0, 1]
['fetch.iter', 'forward', 'train.iteration']
0.1 13 0 True COMPLETED
train.7: no such run; trainspan runs lists all runs 
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
