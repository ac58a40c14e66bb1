// Package pytorch holds a job in Python, and tests that run it with trainspan
// run. They are skipped without PyTorch.
package pytorch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/testkit/built"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/until"
)

// interpreter returns the path of a Python interpreter with PyTorch.
var interpreter = sync.OnceValues(func() (string, error) {
	path := os.Getenv("TRAINSPAN_TORCH_PYTHON")
	if path == "" {
		path = "/usr/bin/python3" // Debian's PyTorch is for this one
	}
	if out, err := exec.Command(path, "-c", "import torch").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s has no torch: %s", path, out)
	}
	return path, nil
})

// job is train.py under trainspan run.
type job struct {
	*exec.Cmd
	dir, data string
	out       bytes.Buffer
}

func newJob(t *testing.T, ranks int, args ...string) *job {
	t.Helper()
	if testing.Short() {
		t.Skip("trains with PyTorch")
	}
	python, err := interpreter()
	if err != nil {
		t.Skip(err)
	}
	path := built.Command(t)
	// The text is that of this folder, so that every machine has it.
	data := t.TempDir()
	for i := range 40 {
		if err := os.WriteFile(filepath.Join(data, fmt.Sprintf("%d.md", i)), []byte(strings.Repeat("for x, y in train: optimizer.zero_grad()\n", 400)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	j := &job{dir: filepath.Join(t.TempDir(), "run"), data: t.TempDir()}
	j.Cmd = exec.Command(path, append([]string{
		"run", "--quiet", "--dir", j.dir, "--", python, "launch.py", "--ranks", strconv.Itoa(ranks), "train.py",
		"--root", data, "--width", "32", "--length", "32", "--out", j.data,
	}, args...)...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TRAINSPAN_") && !strings.HasPrefix(v, "PYTHON") {
			j.Env = append(j.Env, v)
		}
	}
	j.Env = append(j.Env, "PYTHONDONTWRITEBYTECODE=1")
	j.Stdout, j.Stderr = &j.out, &j.out
	return j
}

// process holds the records of one process of the job.
type process struct {
	count map[string]int
	sum   map[string]int64 // µs of the spans by name
	first int64
	last  int64
	steps []string // of the iterations
	meta  map[string]string
}

// processes reads all traces, which must be valid.
func (j *job) processes(t *testing.T) (ranks map[string]*process, workers []*process) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(j.dir, "trace-*.pfw.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v\n%s", err, &j.out)
	}
	ranks = make(map[string]*process)
	for _, f := range files {
		dftest.Check(t, f)
		p := read(t, f)
		switch {
		case p.meta["role"] == "dataloader_worker":
			workers = append(workers, p)
		case p.meta["rank"] != "":
			ranks[p.meta["rank"]] = p
		}
	}
	return ranks, workers
}

func read(t *testing.T, path string) *process {
	t.Helper()
	r, err := dftracer.OpenReader(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // only read
	p := &process{count: make(map[string]int), sum: make(map[string]int64), meta: make(map[string]string)}
	for {
		ev, err := r.Next()
		if errors.Is(err, io.EOF) {
			return p
		}
		if err != nil {
			t.Fatal(err)
		}
		if ev.Phase == dftracer.PhaseMetadata {
			key, value := ev.Meta()
			p.meta[key] = value
		}
		if ev.Phase != dftracer.PhaseComplete || ev.Cat == dftracer.CatDFTracer {
			continue
		}
		name := ev.Cat + "/" + ev.Name
		if async, ok := ev.Arg("async"); ok && async.Int64() != 0 {
			name += " (async)" // for DistributedDataParallel, if PyTorch reports it
		}
		p.count[name]++
		p.sum[name] += ev.Dur
		if p.first == 0 || ev.TS < p.first {
			p.first = ev.TS
		}
		p.last = max(p.last, ev.TS+ev.Dur)
		if name == "pipeline/train.iteration" {
			step, _ := ev.Arg("step")
			p.steps = append(p.steps, strconv.FormatInt(step.Int64(), 10))
		}
	}
}

// report is the output of trainspan report --json.
type report struct{ Verdict verdict }

type verdict struct {
	Sentence  string
	Straggler struct {
		Kind, Cause string
		Ranks       []int
		Witness     []string
		Stacks      []struct {
			Rank                  int
			Place, Function, From string
		}
		Evidence struct {
			Waited float64 `json:"waited_ms"`
		}
	}
}

func (j *job) report(t *testing.T) (r report) {
	t.Helper()
	out, err := exec.Command(j.Path, "report", "--json", j.dir).Output()
	if err != nil {
		t.Fatalf("report: %v", err)
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSlowRank runs two ranks, one with a slow dataset. Every phase is
// recorded, the counts are exact, the sums agree, and the report names the rank
// and the cause.
func TestSlowRank(t *testing.T) {
	const epochs, steps = 2, 25
	j := newJob(t, 2, "--epochs", "2", "--steps", "25", "--slow-ms", "30")
	j.Env = append(j.Env, "SLOW_RANK=1")
	if err := j.Run(); err != nil {
		t.Fatalf("job: %v\n%s", err, &j.out)
	}
	ranks, workers := j.processes(t)
	if len(ranks) != 2 || len(workers) != 2*2*epochs {
		t.Fatalf("%d ranks, %d workers; want 2, %d\n%s", len(ranks), len(workers), 2*2*epochs, &j.out)
	}
	for rank, p := range ranks {
		n := epochs * steps
		for name, want := range map[string]int{
			"pipeline/train.iteration": n, "compute/backward": n, "compute/step": n, "compute/step.zero_grad": n, "pipeline/epoch.block": epochs,
			"pipeline/train": 1, "pipeline/evaluate": epochs, "pipeline/evaluate.iteration": 8 * epochs, "compute/forward": n + 8*epochs, "ai_root/ai_root": 1,
			"dataloader/fetch.iter": n + 8*epochs + 2*epochs, "startup/interpreter": 1, "comm/all_reduce": epochs, "comm/barrier": epochs, "checkpoint/capture": map[string]int{"0": epochs}[rank],
		} {
			if p.count[name] != want {
				t.Errorf("rank %s: %d of %s, want %d", rank, p.count[name], name, want)
			}
		}
		if p.count["startup/imports"] < 1 {
			t.Errorf("rank %s: %v, want startup/imports", rank, p.count)
		}
		if p.count["comm/bcast"] < n {
			t.Errorf("rank %s: %v, want %d broadcasts of buffers or more", rank, p.count, n)
		}
		for i, s := range p.steps {
			if s != strconv.Itoa(i) {
				t.Errorf("rank %s: iteration %d has step %s, want the same", rank, i, s)
			}
		}
		inside := p.sum["compute/forward"] + p.sum["compute/backward"] + p.sum["compute/step"] + p.sum["compute/step.zero_grad"]
		loop := p.sum["pipeline/train.iteration"] + p.sum["dataloader/fetch.iter"] + p.sum["pipeline/evaluate.iteration"]
		if wall := p.last - p.first; inside > loop || loop > p.sum["pipeline/train"] || p.sum["pipeline/train"] > wall || p.sum["ai_root/ai_root"] != wall {
			t.Errorf("rank %s: phases %d, iterations %d, loop %d, wall %d µs; want each at most the next, ai_root all of it", rank, inside, loop, p.sum["pipeline/train"], wall)
		}
	}
	for _, w := range workers {
		if w.count["dataloader/fetch"] == 0 || len(w.count) != 1 {
			t.Errorf("a worker has %v, want dataloader/fetch only", w.count)
		}
	}
	v := j.report(t).Verdict
	if s := v.Straggler; s.Kind != "slow_ranks" || s.Cause != "input" || len(s.Ranks) != 1 || s.Ranks[0] != 1 {
		t.Errorf("verdict %+v, want slow rank 1, cause input", v)
	}
}

// TestSlowRankHidden checks the same if ranks synchronize only inside of
// backward, and in collectives of the program once an epoch.
func TestSlowRankHidden(t *testing.T) {
	j := newJob(t, 2, "--epochs", "2", "--steps", "25", "--slow-ms", "30", "--keep-buffers")
	j.Env = append(j.Env, "SLOW_RANK=1")
	if err := j.Run(); err != nil {
		t.Fatalf("job: %v\n%s", err, &j.out)
	}
	v := j.report(t).Verdict
	if s := v.Straggler; s.Kind != "slow_ranks" || s.Cause != "input" || len(s.Ranks) != 1 || s.Ranks[0] != 1 {
		t.Errorf("verdict %+v, want slow rank 1, cause input", v)
	}
}

// TestSlowBackward has a rank that is slow in backward, where all ranks
// synchronize, by ten times the delays from load.
func TestSlowBackward(t *testing.T) {
	for range 3 { // on a machine with too much load no rank is named
		j := newJob(t, 2, "--epochs", "1", "--steps", "30", "--slow-ms", "150", "--slow-in", "backward", "--keep-buffers")
		j.Env = append(j.Env, "SLOW_RANK=1")
		if err := j.Run(); err != nil {
			t.Fatalf("job: %v\n%s", err, &j.out)
		}
		ranks, _ := j.processes(t)
		for rank, p := range ranks {
			if p.count["comm/wait"] != 30 || p.sum["comm/wait"] > p.sum["compute/backward"] {
				t.Errorf("rank %s: %d waits for gradients, %d of %d µs; want 30, at most the time of backward", rank, p.count["comm/wait"], p.sum["comm/wait"], p.sum["compute/backward"])
			}
		}
		v := j.report(t).Verdict
		switch s := v.Straggler; {
		case s.Kind == "slow_ranks" && s.Cause == "backward" && slices.Equal(s.Ranks, []int{1}):
			return
		case s.Kind == "fine":
			t.Fatalf("verdict %+v, want rank 0 found or suspected", v)
		case slices.Contains(s.Ranks, 0):
			t.Fatalf("verdict %+v, want rank 0 not blamed", v)
		}
		t.Log(v.Sentence)
	}
	t.Error("rank 1 is named in none of three runs, want one")
}

// TestSlowIn has one rank of two that is slow in one phase, by ten times the
// time of a step. The report names it for that phase; if load prevents this, it
// names no rank, and the job runs once more.
func TestSlowIn(t *testing.T) {
	for _, tc := range []struct {
		phase, cause string
		args         []string
	}{
		{"data", "input", []string{"--slow-ms", "12"}},
		{"forward", "forward", nil},
		{"optimizer", "optimizer", nil},
		{"save", "checkpoint", []string{"--save-all", "--epochs", "12", "--steps", "4", "--slow-ms", "600"}},
	} {
		t.Run(tc.phase, func(t *testing.T) {
			for range 3 {
				j := newJob(t, 2, append([]string{"--epochs", "1", "--steps", "40", "--workers", "0", "--slow-ms", "100", "--slow-in", tc.phase}, tc.args...)...)
				j.Env = append(j.Env, "SLOW_RANK=1")
				if err := j.Run(); err != nil {
					t.Fatalf("job: %v\n%s", err, &j.out)
				}
				v := j.report(t).Verdict
				t.Log(v.Sentence)
				switch s := v.Straggler; {
				case s.Kind == "slow_ranks" && s.Cause == tc.cause && slices.Equal(s.Ranks, []int{1}):
					return
				case slices.Contains(s.Ranks, 0):
					t.Fatalf("verdict %+v, want rank 0 not blamed", v)
				}
			}
			t.Error("rank 1 was named in none of three runs, want one")
		})
	}
}

// TestFourRanks runs more ranks, with spawned workers.
func TestFourRanks(t *testing.T) {
	j := newJob(t, 4, "--epochs", "1", "--steps", "6", "--start-method", "spawn")
	if err := j.Run(); err != nil {
		t.Fatalf("job: %v\n%s", err, &j.out)
	}
	ranks, workers := j.processes(t)
	if len(ranks) != 4 || len(workers) != 8 {
		t.Errorf("%d ranks, %d workers; want 4, 8\n%s", len(ranks), len(workers), &j.out)
	}
	for rank, p := range ranks {
		if p.count["pipeline/train.iteration"] != 6 || p.count["pipeline/evaluate.iteration"] != 8 {
			t.Errorf("rank %s: %v, want 6 iterations, 8 of evaluations", rank, p.count)
		}
	}
	for _, w := range workers {
		if w.count["dataloader/fetch"] == 0 || len(w.count) != 1 {
			t.Errorf("a worker has %v, want dataloader/fetch only", w.count)
		}
	}
}

// start starts the job and waits for the end of its first epoch.
func (j *job) start(t *testing.T) {
	t.Helper()
	j.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := j.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-j.Process.Pid, syscall.SIGKILL) })
	until.True(t, "a checkpoint", func() bool {
		if err := syscall.Kill(j.Process.Pid, 0); err != nil {
			t.Fatalf("it has ended\n%s", &j.out)
		}
		_, err := os.Stat(filepath.Join(j.data, "checkpoint.pt"))
		return err == nil
	})
}

// rankPID finds the process of a rank.
func rankPID(t *testing.T, group int, rank string) int {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(d))
		command, _ := os.ReadFile(filepath.Join(d, "cmdline"))
		env, _ := os.ReadFile(filepath.Join(d, "environ"))
		if !bytes.Contains(command, []byte("\x00train.py\x00")) || bytes.Contains(command, []byte("launch.py")) || !bytes.Contains(env, []byte("\x00RANK="+rank+"\x00")) {
			continue
		}
		if g, err := syscall.Getpgid(pid); err != nil || g != group {
			continue
		}
		return pid
	}
	t.Fatalf("no process of rank %s in group %d", rank, group)
	return 0
}

// TestKilledRank checks that the traces have everything that a killed rank did.
func TestKilledRank(t *testing.T) {
	j := newJob(t, 2, "--epochs", "1000", "--steps", "20", "--workers", "0")
	j.start(t)
	pid := rankPID(t, j.Process.Pid, "1")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var failed *exec.ExitError
	if err := j.Wait(); !errors.As(err, &failed) || failed.ExitCode() != 128+int(syscall.SIGKILL) {
		t.Errorf("job ended with %v, want exit status 137\n%s", err, &j.out)
	}
	ranks, _ := j.processes(t)
	for _, rank := range []string{"0", "1"} {
		p := ranks[rank]
		if p == nil {
			t.Fatalf("rank %s has no trace", rank)
		}
		if p.count["pipeline/train.iteration"] < 20 || p.count["pipeline/epoch.block"] < 1 {
			t.Errorf("rank %s: %v, want 20 iterations and 1 epoch or more", rank, p.count)
		}
	}
	if p := ranks["1"]; p.count["ai_root/ai_root"] != 0 {
		t.Error("the application of the killed rank has an end")
	}
	if s := j.report(t).Verdict.Sentence; !strings.HasPrefix(s, "Failed: status 137 (SIGKILL of its child process).") && !strings.HasPrefix(s, "Ended without an end record: rank 1,") {
		t.Errorf("sentence %q, want status 137 or no end record of rank 1", s)
	}
}

// TestInterrupt checks that Ctrl-C ends the job, once, and that the traces are
// complete.
func TestInterrupt(t *testing.T) {
	j := newJob(t, 2, "--epochs", "1000", "--steps", "20", "--workers", "0")
	j.start(t)
	if err := syscall.Kill(-j.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	var failed *exec.ExitError
	if err := j.Wait(); !errors.As(err, &failed) || failed.ExitCode() == 0 {
		t.Errorf("job ended with %v, want an exit status above 0\n%s", err, &j.out)
	}
	if n := strings.Count(j.out.String(), "KeyboardInterrupt"); n > 2 {
		t.Errorf("%d interrupts for two ranks, want at most 2:\n%s", n, &j.out)
	}
	ranks, _ := j.processes(t)
	for _, rank := range []string{"0", "1"} {
		if p := ranks[rank]; p == nil || p.count["pipeline/train.iteration"] < 20 {
			t.Errorf("rank %s: %+v, want 20 iterations or more", rank, p)
		}
	}
	if s := j.report(t).Verdict.Sentence; !strings.HasPrefix(s, "Stopped by Ctrl-C.") {
		t.Errorf(`sentence %q, want "Stopped by Ctrl-C."`, s)
	}
}
