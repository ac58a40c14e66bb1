package python_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/ingest/pyring/pyclient"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
)

// torchPython returns the interpreter of Debian's PyTorch, or that of the
// variable TRAINSPAN_TORCH_PYTHON.
func torchPython() (string, error) {
	t, err := torchInstalled()
	return t.path, err
}

// torchVersion returns the version of torchPython for the tests: 1.13, 2.6 or
// new.
func torchVersion() (string, error) {
	t, err := torchInstalled()
	return t.version, err
}

type torchBuild struct{ path, version string }

var torchInstalled = sync.OnceValues(func() (torchBuild, error) {
	t := torchBuild{cmp.Or(os.Getenv("TRAINSPAN_TORCH_PYTHON"), "/usr/bin/python3"), "new"}
	out, err := exec.Command(t.path, "-c", "import torch; print(torch.__version__)").Output()
	if err != nil {
		return t, fmt.Errorf("%s has no torch: %w", t.path, err)
	}
	for _, known := range []string{"1.13", "2.6"} {
		if strings.HasPrefix(string(out), known+".") {
			t.version = known
		}
	}
	return t, nil
})

// torchJob is a Python program with the hooks.
type torchJob struct {
	*exec.Cmd
	rings string
}

// newTorchJob prepares a program of testdata/torch, or of another folder. It
// skips the test without PyTorch.
func newTorchJob(t *testing.T, program string, args ...string) *torchJob {
	t.Helper()
	if testing.Short() {
		t.Skip("loads PyTorch")
	}
	interpreter, err := torchPython()
	if err != nil {
		t.Skip(err)
	}
	client := t.TempDir()
	if err := pyclient.Unpack(client); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(program, string(filepath.Separator)) {
		program = filepath.Join("testdata", "torch", program)
	}
	// Stops a program that hangs, with its children.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // limits a test that hangs
	t.Cleanup(cancel)
	j := &torchJob{exec.CommandContext(ctx, interpreter, append([]string{program}, args...)...), t.TempDir()}
	j.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	j.Cancel = func() error { return syscall.Kill(-j.Process.Pid, syscall.SIGKILL) }
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TRAINSPAN_") && !strings.HasPrefix(v, "DFTRACER_") && !strings.HasPrefix(v, "PYTHON") {
			j.Env = append(j.Env, v)
		}
	}
	j.Env = append(j.Env, "PYTHONPATH="+client, "PYTHONDONTWRITEBYTECODE=1", "TRAINSPAN_RING="+j.rings, "OMP_NUM_THREADS=1")
	return j
}

// run runs the program, which must succeed, and returns its output.
func (j *torchJob) run(t *testing.T) string {
	t.Helper()
	out, err := j.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", j.Args, err, out)
	}
	return strings.Join(slices.DeleteFunc(slices.Collect(strings.Lines(string(out))), ofGloo), "")
}

// ofGloo reports whether a line is a message of gloo itself, from torch 2.14
// on.
func ofGloo(line string) bool { return strings.HasPrefix(line, "[./gloo/") }

// traces imports and reads the traces of the job's processes.
func (j *torchJob) traces(t *testing.T) []*trace {
	t.Helper()
	st, err := pyring.Import(context.Background(), []string{j.rings}, pyring.Options{Out: t.TempDir(), Attempt: -1})
	if err != nil {
		t.Fatal(err)
	}
	if st.Bad != 0 || st.Lost != 0 {
		t.Errorf("%d bad, %d lost; want 0, 0", st.Bad, st.Lost)
	}
	var all []*trace
	for _, f := range st.Files {
		dftest.Check(t, f)
		all = append(all, readTrace(t, f))
	}
	return all
}

// only returns the only trace that has spans with the name.
func only(t *testing.T, all []*trace, name string) *trace {
	t.Helper()
	var found *trace
	for _, tr := range all {
		if tr.count[name] > 0 {
			if found != nil {
				t.Fatalf("two processes have %s, want one", name)
			}
			found = tr
		}
	}
	if found == nil {
		t.Fatalf("no process has %s", name)
	}
	return found
}

// span is a span of a trace.
type span struct {
	dftracer.Event
	name string // with the category
	up   *span
	args map[string]string
}

// below reports whether s has an ancestor with the name.
func (s *span) below(name string) bool {
	for p := s.up; p != nil; p = p.up {
		if p.name == name {
			return true
		}
	}
	return false
}

// trace holds the records of a process.
type trace struct {
	spans []*span
	count map[string]int
	meta  map[string]string
}

// named returns the spans with a name.
func (tr *trace) named(name string) (out []*span) {
	for _, s := range tr.spans {
		if s.name == name {
			out = append(out, s)
		}
	}
	return out
}

func readTrace(t *testing.T, path string) *trace {
	t.Helper()
	r, err := dftracer.OpenReader(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // only read
	tr := &trace{count: make(map[string]int), meta: make(map[string]string)}
	byID := make(map[uint64]*span)
	for {
		ev, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if ev.Phase == dftracer.PhaseMetadata {
			key, value := ev.Meta()
			tr.meta[key] = value
			continue
		}
		if ev.Phase != dftracer.PhaseComplete || ev.Cat == dftracer.CatDFTracer {
			continue
		}
		s := &span{Event: *ev, name: ev.Cat + "/" + ev.Name, args: make(map[string]string)}
		for i := range ev.Args {
			s.args[ev.Args[i].Key] = ev.Args[i].Text()
		}
		byID[s.ID] = s
		tr.spans = append(tr.spans, s)
		tr.count[s.name]++
	}
	for _, s := range tr.spans {
		if s.Parent > 0 {
			s.up = byID[uint64(s.Parent)]
		}
	}
	return tr
}

// TestTorchLoops checks the number of spans of each kind in a loop.
func TestTorchLoops(t *testing.T) {
	const iteration, epoch, evaluate, evaluated = "pipeline/train.iteration", "pipeline/epoch.block", "pipeline/evaluate", "pipeline/evaluate.iteration"
	type counts struct {
		iterations, epochs, evaluations, evaluated   int
		forward, backward, step, zero, waits, starts int
	}
	loops := map[string]counts{
		"plain":                     {8, 2, 2, 4, 24, 8, 8, 8, 16, 4},
		"stop_early":                {4, 2, 0, 0, 8, 4, 4, 4, 6, 2},
		"batch_ahead":               {4, 1, 0, 0, 8, 4, 4, 4, 5, 1},
		"no_loader":                 {5, 0, 0, 2, 12, 5, 5, 5, 0, 0},
		"no_peers":                  {4, 1, 0, 0, 8, 4, 4, 4, 5, 1},
		"two_optimizers":            {4, 0, 0, 0, 16, 8, 8, 8, 0, 0},
		"accumulate":                {4, 1, 0, 0, 8, 4, 2, 2, 5, 1},
		"one_batch":                 {6, 0, 0, 0, 12, 6, 6, 6, 1, 1},
		"evaluate_with_gradients":   {8, 2, 3, 6, 28, 8, 8, 8, 19, 5},
		"teacher":                   {4, 1, 0, 0, 8, 4, 4, 4, 5, 1},
		"target":                    {5, 0, 0, 0, 10, 5, 5, 5, 0, 0},
		"reference":                 {8, 2, 0, 0, 16, 8, 8, 8, 10, 2},
		"files":                     {12, 1, 0, 0, 24, 12, 12, 12, 13, 1},
		"load_beside":               {4, 1, 1, 2, 12, 4, 4, 4, 8, 2},
		"eval_mode":                 {5, 0, 0, 1, 10, 5, 5, 5, 0, 0}, // until its first backward, a forward evaluates
		"attacked":                  {4, 1, 0, 0, 24, 20, 4, 4, 5, 1},
		"eval_mode_parts":           {4, 1, 0, 0, 12, 12, 4, 4, 5, 1},
		"eval_mode_ahead":           {8, 2, 0, 1, 8, 8, 8, 8, 10, 2},
		"judged":                    {10, 0, 0, 8, 28, 10, 10, 10, 0, 0},
		"prefetched":                {8, 1, 0, 0, 14, 8, 8, 7, 10, 1}, // the training is recorded from its first backward on
		"persistent_early":          {6, 3, 0, 0, 12, 6, 6, 6, 6, 3},
		"evaluate_between":          {16, 1, 0, 4, 36, 16, 16, 16, 17, 1},
		"steps_in_backward":         {20, 0, 0, 0, 40, 20, 80, 0, 0, 0},
		"chunks":                    {11, 1, 0, 8, 30, 11, 11, 11, 11, 1},
		"closure":                   {4, 1, 0, 0, 8, 4, 4, 4, 5, 1},
		"endless":                   {6, 2, 0, 0, 12, 6, 6, 6, 7, 2},
		"acts":                      {6, 0, 0, 0, 18, 6, 6, 6, 0, 0},
		"cycled":                    {14, 1, 2, 4, 36, 14, 14, 14, 11, 3},
		"cycles":                    {13, 2, 0, 0, 26, 13, 13, 13, 8, 2},
		"several_steps":             {9, 2, 0, 0, 34, 17, 17, 17, 10, 2},
		"loader_first":              {13, 2, 0, 0, 26, 13, 13, 13, 10, 2},
		"evaluate_in_training_mode": {8, 2, 2, 8, 32, 8, 8, 8, 22, 6},
		"skip":                      {8, 2, 0, 0, 16, 6, 6, 6, 10, 2},
		"late_step":                 {4, 1, 0, 0, 8, 4, 2, 2, 5, 1},
		"own_tensors":               {4, 1, 0, 0, 8, 4, 4, 4, 5, 1},
		"own_spans":                 {8, 2, 0, 0, 16, 8, 8, 8, 10, 2},
		"two_loaders":               {4, 1, 0, 0, 8, 4, 4, 4, 9, 2},
		"failing":                   {5, 0, 0, 0, 12, 6, 6, 6, 0, 0},
		"inference":                 {0, 0, 1, 4, 4, 0, 0, 0, 5, 1},
		"long":                      {117, 3, 3, 6, 246, 117, 117, 117, 132, 6},
		"same_iterator":             {12, 1, 2, 4, 32, 12, 12, 12, 16, 1},
		"same_loop":                 {12, 1, 4, 2, 32, 12, 12, 12, 17, 1},
		"scalars":                   {40, 1, 0, 0, 80, 40, 40, 40, 41, 1},
		"step_in_backward":          {20, 0, 0, 0, 40, 20, 0, 0, 0, 0},
		"two_threads":               {12, 0, 0, 0, 24, 12, 12, 12, 0, 0},
		"statistics":                {2, 0, 0, 0, 4, 2, 2, 2, 5, 1},
	}
	j := newTorchJob(t, "loops.py", slices.Sorted(maps.Keys(loops))...)
	out := j.run(t)
	traces := make(map[string]*trace) // by pid
	for _, tr := range j.traces(t) {
		traces[strconv.FormatInt(tr.spans[0].PID, 10)] = tr
	}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		c, known := loops[f[0]]
		if !known || len(f) != 3 || f[2] != "0" {
			t.Fatalf("program printed %q, want a known loop and 0", line)
		}
		delete(loops, f[0])
		t.Run(f[0], func(t *testing.T) {
			tr := traces[f[1]]
			if tr == nil {
				t.Fatalf("process %s left no trace", f[1])
			}
			for name, want := range map[string]int{
				"ai_root/ai_root": 1, "pipeline/train": 1, iteration: c.iterations, epoch: c.epochs, evaluate: c.evaluations, evaluated: c.evaluated,
				"compute/forward": c.forward, "compute/backward": c.backward, "compute/step": c.step, "compute/step.zero_grad": c.zero,
				"dataloader/fetch.iter": c.waits, "dataloader/fetch.start": c.starts,
			} {
				if c.iterations == 0 && name == "pipeline/train" {
					want = 0
				}
				if got := tr.count[name]; got != want {
					t.Errorf("%d of %s, want %d", got, name, want)
				}
			}
			if got, want := tr.count["rollout/rollout"], map[string]int{"acts": 6}[f[0]]; got != want {
				t.Errorf("%d of rollout/rollout, want %d", got, want)
			}
			if got, want := tr.count["checkpoint/restart"], map[string]int{"load_beside": 2}[f[0]]; got != want {
				t.Errorf("%d of checkpoint/restart, want %d", got, want)
			}
			if got, want := tr.count["startup/rendezvous"], map[string]int{"no_peers": 1}[f[0]]; got != want {
				t.Errorf("%d of startup/rendezvous, want %d", got, want)
			}
			for i, s := range tr.named(iteration) {
				if s.args["step"] != strconv.Itoa(i) {
					t.Errorf("iteration %d has step %s, want the same", i, s.args["step"])
				}
				if first := tr.named(iteration)[0]; s.TID != first.TID {
					t.Errorf("iteration %d is on thread %d, want %d as the first", i, s.TID, first.TID)
				}
				if !s.below("pipeline/train") && f[0] != "prefetched" { // that is on the thread of the first batch
					t.Errorf("iteration %d is not below pipeline/train", i)
				}
			}
			if f[0] == "own_spans" { // from the first step on, and when no data is requested any more
				for _, s := range slices.Concat(tr.named("compute/forward"), tr.named("compute/backward"), tr.named("compute/step"), tr.named("compute/step.zero_grad")) {
					if !s.below("app/mine") {
						t.Errorf("%s is not below app/mine, the span of the program around it", s.name)
					}
				}
			}
			if want := map[string]map[string]int{"long": {"8": 2 * 38, "6": 2, "": 39}, "own_tensors": {"8": 4}, "scalars": {"": 40}}[f[0]]; want != nil {
				samples := make(map[string]int)
				for _, s := range tr.named(iteration) {
					samples[s.args["samples"]]++
				}
				if !maps.Equal(samples, want) {
					t.Errorf("samples %v, want %v", samples, want)
				}
			}
			in := 0
			for _, s := range tr.named("compute/backward") {
				if s.below(iteration) {
					in++
				}
			}
			if lost := len(tr.named("compute/backward")) - in; lost > 0 && f[0] != "two_optimizers" && f[0] != "prefetched" || lost > 1 { // it ends between two steps of the first one; another thread may be in an iteration when the training begins
				t.Errorf("%d backwards are in no iteration, want none (two_optimizers, prefetched: at most 1)", lost)
			}
			if f[0] == "target" || f[0] == "reference" {
				for _, s := range tr.named("compute/forward") {
					if !s.below(iteration) {
						t.Errorf("forward at step %s is in no iteration", s.args["step"])
					}
				}
			}
			if strings.HasPrefix(f[0], "same_") {
				for _, s := range tr.named("compute/forward") {
					if s.below(iteration) == s.below(evaluate) {
						t.Errorf("forward at step %s: in an iteration %t, want it in either an iteration or an evaluation", s.args["step"], s.below(iteration))
					}
				}
			}
			for _, s := range tr.spans {
				if f[0] != "prefetched" && s.name != "ai_root/ai_root" && s.name != "checkpoint/restart" && !s.below("ai_root/ai_root") || s.below("startup/rendezvous") {
					t.Errorf("%s is not below ai_root/ai_root, or below startup/rendezvous", s.name)
				}
			}
		})
	}
	if len(loops) > 0 {
		t.Errorf("loops %v did not run", slices.Sorted(maps.Keys(loops)))
	}
}

// TestTorchWithoutSteps checks that programs work the same if no step is
// recorded: iterations are off, or everything, or there is no ring buffer.
func TestTorchWithoutSteps(t *testing.T) {
	for _, env := range []string{"TRAINSPAN_WITHOUT=iteration", "TRAINSPAN_ONLY=data,forward", "DFTRACER_ENABLE=0", "TRAINSPAN_RING=/dev/null"} {
		t.Run(env, func(t *testing.T) {
			j := newTorchJob(t, "loops.py", "chunks", "plain", "stop_early", "long", "same_iterator", "acts")
			j.Env = append(j.Env, env)
			for line := range strings.Lines(j.run(t)) {
				if f := strings.Fields(line); len(f) != 3 || f[2] != "0" {
					t.Errorf("program printed %q, want a loop and 0", line)
				}
			}
		})
	}
}

// TestTorchForkedRank checks that the child of a process that ran the model
// before the fork is a rank when it trains.
func TestTorchForkedRank(t *testing.T) {
	j := newTorchJob(t, "loops.py", "tried")
	pid := strings.Fields(j.run(t))[1]
	all := j.traces(t)
	i := slices.IndexFunc(all, func(tr *trace) bool { return strconv.FormatInt(tr.spans[0].PID, 10) == pid })
	if i < 0 || len(all) != 2 {
		t.Fatalf("%d traces, want 2, one of them of the forked rank", len(all))
	}
	for name, want := range map[string]int{
		"ai_root/ai_root": 1, "pipeline/train": 1, "pipeline/epoch.block": 1, "pipeline/train.iteration": 4, "dataloader/fetch.iter": 5,
		"compute/forward": 8, "compute/backward": 4, "compute/step": 4, "compute/step.zero_grad": 4,
	} {
		if got := all[i].count[name]; got != want {
			t.Errorf("%d of %s, want %d", got, name, want)
		}
	}
}
