package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/testkit/built"
	"github.com/trainspan/trainspan/internal/testkit/simjob"
)

// daskPackages are the packages of TestDask's cluster.
var daskPackages = []string{"dask==2026.1.1", "distributed==2026.1.1", "pandas==2.3.3", "pyarrow==26.0.1"}

// daskQuery adds up the times of spans by category in a data set.
const daskQuery = `import sys, dask.dataframe as dd
e = dd.read_parquet(sys.argv[1] + "/events", columns=["ph", "cat", "dur_us"])
print(e[e.ph == "X"].groupby("cat").dur_us.sum().compute().to_json())`

// TestDask checks that a real Dask cluster reports a job exactly as one
// trainspan report does, byte for byte, with one, two and four workers, and if
// one of them is killed after half of the digests. Its dataframes read the
// output of convert, with the sums of summary. TRAINSPAN_DASK_RANKS and
// TRAINSPAN_DASK_STEPS are the size of the job, TRAINSPAN_DASK_PYTHON is a
// python3 with dask and distributed; without it the test makes an environment
// with them.
func TestDask(t *testing.T) {
	ranks, steps := setting(t, "TRAINSPAN_DASK_RANKS", 64), setting(t, "TRAINSPAN_DASK_STEPS", 20)
	ctx, dir := untilDeadline(t), t.TempDir()
	python := os.Getenv("TRAINSPAN_DASK_PYTHON")
	if python == "" {
		if testing.Short() {
			t.Skip("packages of Python are fetched")
		}
		python = filepath.Join(dir, "venv", "bin", "python3")
		if out, err := exec.CommandContext(ctx, "python3", "-m", "venv", filepath.Join(dir, "venv")).CombinedOutput(); err != nil {
			t.Skipf("no environment can be made: %v\n%s", err, out)
		}
		install := append([]string{"-m", "pip", "install", "--disable-pip-version-check", "-q"}, daskPackages...)
		if out, err := exec.CommandContext(ctx, python, install...).CombinedOutput(); err != nil {
			t.Skipf("the packages cannot be fetched: %v\n%s", err, out)
		}
	}
	program := built.Command(t)
	job := filepath.Join(dir, "job")
	l := simjob.Large{Ranks: ranks, Steps: steps, Slow: ranks * 2 / 3, Extra: 12, Save: 50, Folder: max(8, ranks/80)}
	if err := l.Write(job); err != nil {
		t.Fatal(err)
	}
	parts, err := filepath.Glob(filepath.Join(job, "*"))
	if err != nil || len(parts) < 8 {
		t.Fatalf("%d parts, want 8 or more: %v", len(parts), err)
	}
	whole := exec.CommandContext(ctx, program, append([]string{"report", "--json"}, parts...)...)
	want, err := whole.Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("one report of %d ranks x %d steps: CPU %.1f s", ranks, steps, (whole.ProcessState.UserTime() + whole.ProcessState.SystemTime()).Seconds())
	code, err := filepath.Abs("../../integrations/python/dask")
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"--workers=1", "--workers=2", "--workers=4", "--workers=2 --kill"} {
		args := append(strings.Fields("cluster.py --command="+program+" "+how), parts...)
		cmd := exec.CommandContext(ctx, python, args...)
		cmd.Dir, cmd.Env = code, append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
		var said bytes.Buffer
		cmd.Stderr = &said
		got, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", how, err, said.String())
		}
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		t.Log(lines[len(lines)-1])
		if strings.Contains(how, "kill") && !strings.Contains(said.String(), "one of them killed") {
			t.Errorf("no worker was killed: want \"one of them killed\" in\n%s", said.String())
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: the report differs from that of one command", how)
		}
	}
	var sum struct {
		Categories []struct {
			Category string
			Total    int64 `json:"total_us"`
		}
	}
	summary, err := exec.CommandContext(ctx, program, "trace", "summary", "--json", job).Output()
	if err := errors.Join(err, json.Unmarshal(summary, &sum)); err != nil {
		t.Fatal(err)
	}
	lake := filepath.Join(dir, "lake")
	if out, err := exec.CommandContext(ctx, program, "trace", "convert", job, "--to", "parquet", "-o", lake).CombinedOutput(); err != nil {
		t.Fatalf("trace convert: %v\n%s", err, out)
	}
	got, err := exec.CommandContext(ctx, python, "-c", daskQuery, lake).Output()
	byCategory := map[string]int64{}
	if err := errors.Join(err, json.Unmarshal(got, &byCategory)); err != nil {
		t.Fatalf("answer is not JSON: %v\n%s", err, got)
	}
	for _, c := range sum.Categories {
		if byCategory[c.Category] != c.Total {
			t.Errorf("%s: %d µs, want %d as in the summary", c.Category, byCategory[c.Category], c.Total)
		}
	}
	// The error of a worker contains the command's message.
	cmd := exec.CommandContext(ctx, python, "cluster.py", "--workers=1", "--command="+program, filepath.Join(dir, "none"))
	cmd.Dir = code
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "there is no such file; check the name") {
		t.Error(fmt.Errorf("%w\n%s", err, out))
	}
}
