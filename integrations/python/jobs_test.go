package python_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trainspan/trainspan/internal/testkit/built"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/until"
)

// jobProgram is a program of testdata/torch/jobs that runs twice, with and
// without the client, and the records that are expected of it.
type jobProgram struct {
	name  string // of the test; default run
	run   string // the program and its arguments; PYTHON stands for the interpreter, for a launcher
	way   string // the kind of program that it represents; docs/guide/python.md lists them
	quick bool   // it also runs without TRAINSPAN_TORCH_JOBS=all
	light bool   // it also runs in the short tests
	since string // the first version that has its requirements: 2.6 or new; empty is 1.13
	until string // the last one
	opt   string // the folder of /opt that it needs
	ranks int    // how many it starts; 0 is a program without ranks
	procs int    // how many train; 0 is one, or one for each rank
	exit  int    // its exit status
	fetch int    // number of reads by the workers of its loaders

	// order lists the spans of the training process in the order of their starts,
	// each as the part of its name after the category. 3(a b) is a b three times; [
	// and ] are the ends of an iteration, { and } those of an evaluation. A rank
	// with another order has it after "RANK:", on a separate line; after "beside:"
	// are the spans of other threads, sorted.
	order string
	// newest is the order in versions that record operations without a Python call.
	newest string
	// slow is the phase that gets a delay, and its rank: "backward:1". "late" is
	// between phases. The other ranks wait in the phases of waits.
	slow, waits string

	// fails has the known faults by version: "2" is all versions from 2.6 on, "all"
	// is every version. The most specific one applies.
	fails map[string]fault
}

// fault is an expected failure.
type fault struct {
	what string // description
	// order is the order that is recorded at present. If it is empty, the order is
	// correct and the problems are of the kinds in also.
	order string
	also  string // kinds of further problems: output, status, steps, slow, own, beside
}

// The delay of small.py, in µs.
const delay = 80_000

// label returns the name of the test.
func (j *jobProgram) label() string { return cmp.Or(j.name, j.run) }

// versions in ascending order.
var versions = []string{"1.13", "2.6", "new"}

// TestTorchJobs checks that small real programs give the same results with and
// without the client, and that the client records what they do. Known faults
// are expected: the test fails if a program with a known fault is recorded
// correctly.
//
// TRAINSPAN_TORCH_JOBS=all runs all programs, not only the quick ones; the
// short tests run three.
func TestTorchJobs(t *testing.T) {
	version, err := torchVersion()
	if err != nil {
		t.Skip(err)
	}
	command := built.Command(t)
	all := os.Getenv("TRAINSPAN_TORCH_JOBS") == "all"
	for _, j := range jobs {
		t.Run(j.label(), func(t *testing.T) {
			at := slices.Index(versions, version)
			if at < slices.Index(versions, j.since) || j.until != "" && at > slices.Index(versions, j.until) {
				t.Skipf("not for torch %s", version)
			}
			if testing.Short() && !j.light {
				t.Skip("loads PyTorch")
			}
			if !all && !j.quick {
				t.Skip("TRAINSPAN_TORCH_JOBS is not all")
			}
			if j.opt != "" {
				if _, err := os.Stat("/opt/" + j.opt); err != nil {
					t.Skip(err)
				}
			}
			t.Parallel()
			judge(t, j.try(t, command), j.fault(version))
		})
	}
}

// fault returns the known fault for a version, or nil.
func (j *jobProgram) fault(version string) *fault {
	for _, key := range []string{version, "2", "all"} {
		if f, ok := j.fails[key]; ok && (key != "2" || version != "1.13") {
			return &f
		}
	}
	return nil
}

// judge compares the problems with the known fault.
func judge(t *testing.T, found []problem, f *fault) {
	t.Helper()
	if f == nil {
		for _, p := range found {
			t.Errorf("%s: %s", p.kind, p.text)
		}
		return
	}
	if len(found) == 0 {
		t.Fatalf("the program is recorded rightly now: remove its entry in the table of known faults (%s)", f.what)
	}
	want := strings.Fields(f.also)
	if f.order != "" {
		want = append(want, "order")
	}
	for _, p := range found {
		if !slices.Contains(want, p.kind) {
			t.Errorf("%s: %s; want only the known faults %v", p.kind, p.text, want)
		}
		if p.kind == "order" {
			if today := orders(t, f.order); !slices.Equal(p.seen, today.of(p.rank)) {
				t.Errorf("want either the right order or the known wrong one, got %s\nknown: %s", p.text, fold(today.of(p.rank)))
			}
		}
	}
	for _, kind := range want {
		if !slices.ContainsFunc(found, func(p problem) bool { return p.kind == kind }) {
			t.Errorf("the known fault in its %s is gone: remove it in the table", kind)
		}
	}
	t.Logf("known: %s", f.what)
}

// problem is a deviation from the expected result.
type problem struct {
	kind string // status, output, own, order, slow
	text string
	rank string
	seen []string // of an order
}

// outcome is the result of one run of a program.
type outcome struct {
	status      int
	out, errors string
	work        string // the folder that it may write to
	cpu         time.Duration
}

// freePort returns a port without a listener, below those that the system
// assigns to other programs before the ranks connect.
func freePort(t *testing.T) string {
	t.Helper()
	for {
		port := strconv.Itoa(10_000 + rand.IntN(20_000))
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port)); err == nil {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			return port
		}
	}
}

// start runs the program, with the client if command is not empty.
func (j *jobProgram) start(t *testing.T, command, dir string) outcome {
	t.Helper()
	interpreter, err := torchPython()
	if err != nil {
		t.Fatal(err)
	}
	args := strings.Fields(strings.ReplaceAll(j.run, "PYTHON", interpreter))
	if first := j.run[0]; first == '-' || strings.HasSuffix(args[0], ".py") {
		args = append([]string{interpreter}, args...)
	}
	if command != "" {
		args = append([]string{command, "run", "--quiet", "--no-resources", "--dir", dir, "--"}, args...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // limits a test that hangs
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Dir = filepath.Join("testdata", "torch", "jobs")
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TRAINSPAN_") && !strings.HasPrefix(v, "DFTRACER_") && !strings.HasPrefix(v, "PYTHON") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	work := t.TempDir()
	cmd.Env = append(cmd.Env, "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+freePort(t), "PYTHONDONTWRITEBYTECODE=1", "PYTHONHASHSEED=0", "OMP_NUM_THREADS=1", "USE_LIBUV=0", "WORK="+work)
	if j.opt != "" {
		cmd.Env = append(cmd.Env, "PYTHONPATH=/opt/"+j.opt)
	}
	if command != "" && j.slow != "" {
		cmd.Env = append(cmd.Env, "SLOW="+j.slow)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var failed *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	// The ranks print in any order.
	lines := slices.DeleteFunc(slices.Sorted(strings.Lines(out.String())), ofGloo)
	return outcome{cmd.ProcessState.ExitCode(), strings.Join(lines, ""), errs.String(), work, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
}

// screen compares the number of steps that the report shows, and logs the row
// of the program in a table: its steps, the share of code without a phase in
// them, the headline, and the processor time with the client for each second
// without it.
func (j *jobProgram) screen(t *testing.T, command, dir string, steps int, cost float64) []problem {
	t.Helper()
	r := injectedReport(t, command, dir)
	first, err := exec.Command(command, "report", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("row: %s | %d / %d | %s | %.2f", j.label(), steps, r.Steps.Count, r.row(string(first)), cost)
	if r.Steps.Count != steps {
		return []problem{{kind: "screen", text: fmt.Sprintf("the report shows %d steps, want %d", r.Steps.Count, steps)}}
	}
	return nil
}

// try runs the program without and with the client.
func (j *jobProgram) try(t *testing.T, command string) (found []problem) {
	t.Helper()
	bad := func(kind, format string, args ...any) {
		found = append(found, problem{kind: kind, text: fmt.Sprintf(format, args...)})
	}
	plain := j.start(t, "", "")
	if plain.status != j.exit || plain.out == "" {
		t.Fatalf("without the client: status %d, want %d and some output\n%s%s", plain.status, j.exit, plain.out, plain.errors)
	}
	parent, err := os.MkdirTemp("", "jobs-")
	if err != nil {
		t.Fatal(err)
	}
	// The collector process may outlive trainspan run, and write.
	t.Cleanup(func() { until.Nil(t, func() error { return os.RemoveAll(parent) }) })
	dir := filepath.Join(parent, "run")
	watched := j.start(t, command, dir)
	if watched.status != plain.status {
		bad("status", "%d with the client\n%s", watched.status, watched.errors)
	}
	if watched.out != plain.out {
		bad("output", "with the client:\n%swithout:\n%s", watched.out, plain.out)
	}
	here, err := os.Getwd() // the path of a test program may contain the name
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(strings.ReplaceAll(watched.errors, here, ""), "trainspan") {
		bad("own", "its standard error has\n%s", watched.errors)
	}
	if t.Failed() || len(found) > 0 && watched.status != plain.status {
		return found
	}
	files, err := filepath.Glob(filepath.Join(dir, "trace-*.pfw.gz"))
	if err != nil {
		t.Fatal(err)
	}
	var trainers []*trace
	fetched := 0
	for _, f := range files {
		dftest.Check(t, f)
		tr := readTrace(t, f)
		if tr.meta["role"] == "dataloader_worker" {
			fetched += tr.count["dataloader/fetch"]
		} else if tr.main() > 0 {
			trainers = append(trainers, tr)
		}
	}
	if fetched != j.fetch {
		bad("workers", "they read %d times, want %d", fetched, j.fetch)
	}
	if want := cmp.Or(j.procs, j.ranks, 1); len(trainers) != want {
		bad("processes", "%d train, want %d", len(trainers), want)
		return found
	}
	wants := orders(t, j.order)
	if version, _ := torchVersion(); version == "new" && j.newest != "" {
		wants = orders(t, j.newest)
	}
	steps := 0 // of the rank with the most
	for _, words := range wants {
		n := 0
		for _, word := range words {
			if word == "[" {
				n++
			}
		}
		steps = max(steps, n)
	}
	found = append(found, j.screen(t, command, dir, steps, watched.cpu.Seconds()/plain.cpu.Seconds())...)
	for _, tr := range trainers {
		rank := tr.rank()
		seen := tr.order()
		if want := wants.of(rank); !slices.Equal(seen, want) {
			found = append(found, problem{kind: "order", rank: rank, seen: seen, text: fmt.Sprintf("rank %q has %s\nwant %s", rank, fold(seen), fold(want))})
		}
		if seen, want := tr.beside(), wants["beside"]; !slices.Equal(seen, want) {
			bad("beside", "rank %q: other threads have %s\nwant %s", rank, fold(seen), fold(want))
		}
		for i, s := range tr.named("pipeline/train.iteration") {
			if s.args["step"] != strconv.Itoa(i) {
				bad("steps", "rank %q: iteration %d has the step %s", rank, i, s.args["step"])
			}
		}
		for _, s := range tr.spans {
			if numbered(s) && s.args["seq"] == "" {
				bad("group", "rank %q: %s is of no group: %v", rank, s.name, s.args)
			}
		}
		if j.slow != "" {
			for _, text := range tr.delays(j.slow, rank, strings.Fields(j.waits)) {
				bad("slow", "rank %q: %s", rank, text)
			}
		}
	}
	return found
}
