package python_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/ingest/pyring/pyclient"
	"github.com/trainspan/trainspan/internal/job"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
	"github.com/trainspan/trainspan/internal/testkit/until"
	"github.com/trainspan/trainspan/spans"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sink holds the records of a process.
type sink struct {
	p      *job.Process
	spans  []job.Span
	events []job.Event
}

func (s *sink) Span(sp *job.Span)  { s.spans = append(s.spans, *sp) }
func (s *sink) Event(e *job.Event) { s.events = append(s.events, *e) }
func (s *sink) Close() error       { return nil }
func (s *sink) open() (o []string) {
	ended := make(map[uint64]bool)
	for _, sp := range s.spans {
		ended[sp.ID] = ended[sp.ID] || sp.End != job.NoEnd
	}
	for _, sp := range s.spans {
		if !ended[sp.ID] {
			o = append(o, sp.Name)
		}
	}
	return o
}

// read reads a folder as the reports do.
func read(t *testing.T, dir string) (*job.Job, map[int64]*sink) {
	t.Helper()
	set, err := job.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	set.Workers = 1
	sinks := make(map[int64]*sink)
	jobs, err := set.Read(func(p *job.Process) job.Sink {
		s := &sink{p: p}
		sinks[p.PID] = s
		return s
	})
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%d jobs, error %v; want one job", len(jobs), err)
	}
	return jobs[0], sinks
}

// TestDrain checks that processes are drained while they run: a rank that is
// killed, one that ends, and one that still runs at the end.
func TestDrain(t *testing.T) {
	rings, out := t.TempDir(), t.TempDir()
	var log bytes.Buffer // read after Close
	d, err := pyring.New(pyring.Options{Dir: rings, Out: out, Job: "job", Attempt: 1, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Skip(err)
	}
	program := `
import os, sys, time
from trainspan.dftracer import ai
def loop():
    with ai.pipeline.train:
        for i in range(3):
            ai.update(epoch=0, step=i)
            with ai.compute.forward:
                pass
        if sys.argv[1] == "killed":
            ai.comm.all_reduce.start()
            os.kill(os.getpid(), 9)
        if sys.argv[1] == "running":
            print("ready", flush=True)
            time.sleep(600)
with ai:
    loop()
`
	commands := make(map[string]*exec.Cmd)
	for i, how := range []string{"good", "killed", "running"} {
		cmd := pyrun.Command(t, rings, program, how)
		cmd.Env = append(cmd.Env, "RANK="+string(rune('0'+i)), "WORLD_SIZE=3")
		commands[how] = cmd
		if how != "running" {
			if err := cmd.Run(); (err == nil) != (how == "good") {
				t.Fatalf("%s: program ended with %v, want success: %v", how, err, how == "good")
			}
			continue
		}
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
		if _, err := pipe.Read(make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
	}
	// A span that is open for a second has a begin record in the trace of the
	// running process.
	until.True(t, "a begin record", func() bool {
		paths, _ := filepath.Glob(filepath.Join(out, "trace-rank2-*.pfw.gz"))
		return slices.ContainsFunc(paths, func(path string) bool { return strings.Contains(text(path), `"value":"train"`) })
	})
	if err := d.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(context.Background()); err != nil {
		t.Error("a second Close:", err)
	}
	if want := "pid=" + strconv.Itoa(commands["running"].Process.Pid); strings.Count(log.String(), "outlives") != 1 || !strings.Contains(log.String(), want) {
		t.Errorf("want one line \"outlives\" with %s in the log:\n%s", want, log.String())
	}
	st := d.Stats()
	if st.Processes != 3 || st.Spans != 3*3+2 || st.Lost != 0 || st.Bad != 0 || st.Open != 3+2 || len(st.Files) != 3 {
		t.Errorf("stats %+v, want 3 processes and files, 11 spans, 5 open, none lost or bad", st)
	}
	if left, _ := filepath.Glob(filepath.Join(rings, "*")); len(left) > 0 {
		t.Errorf("left behind: %v, want none", left)
	}
	for _, f := range st.Files {
		dftest.Check(t, f)
	}
	whole, sinks := read(t, out)
	if whole.ID != "job" || whole.Ranks != 3 || len(whole.Processes) != 3 {
		t.Fatalf("job %q of %d ranks, %d processes; want job, 3, 3", whole.ID, whole.Ranks, len(whole.Processes))
	}
	for rank, how := range []string{"good", "killed", "running"} {
		s := sinks[int64(commands[how].Process.Pid)]
		if s == nil {
			t.Errorf("%s: no process on record, want one", how)
			continue
		}
		if s.p.Rank != rank || !s.p.AttemptKnown || s.p.Attempt != 2 || (s.p.End == job.NoEnd) != (how != "good") {
			t.Errorf("%s: %+v, want rank %d, attempt 2, an end only after a good run", how, s.p, rank)
		}
		want := map[string][]string{"killed": {spans.Application, spans.TrainingLoop, "all_reduce"}, "running": {spans.Application, spans.TrainingLoop}}[how]
		if got := s.open(); !slices.Equal(got, want) {
			t.Errorf("%s: open are %v, want %v", how, got, want)
		}
	}
}

// text returns the content of a trace that may still be growing.
func text(path string) string {
	var b strings.Builder
	r, err := dftracer.OpenReader(path, nil)
	if err != nil {
		return ""
	}
	defer r.Close() //nolint:errcheck // only read
	for {
		ev, err := r.Next()
		if err != nil {
			return b.String()
		}
		_, value := ev.Meta()
		b.WriteString(`"value":"` + value + `"`)
	}
}

// TestOneLogger checks that one-logger's callbacks give the same records as in
// a Go program, and that the open spans of a killed process stay open in both
// files.
func TestOneLogger(t *testing.T) {
	for _, how := range []string{"", "--die"} {
		t.Run("end"+how, func(t *testing.T) {
			rings, out := t.TempDir(), t.TempDir()
			cmd := pyrun.Command(t, rings, filepath.Join("testdata", "one_logger.py"), how)
			if err := cmd.Run(); (err != nil) != (how == "--die") {
				t.Fatal(err)
			}
			st, traces := importRings(t, pyring.Options{Out: out, Attempt: -1}, rings)
			if len(traces) != 1 || len(st.Files) != 2 || st.Lost != 0 {
				t.Fatalf("stats %+v, want one trace of two files, none lost", st)
			}
			lines, err := os.ReadFile(st.Files[1])
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{
				`"name":"training_loop","attributes":{"train_iterations_start":10,"train_samples_start":80,"train_iterations_target":100}`,
				`"current_iteration":13,"num_iterations":4`, `"name":"save_checkpoint_success"`, `"productive_train_iterations":13`,
				`"custom_metadata":["k:v"]`, `"session_tag":"tag"`,
			} {
				if !strings.Contains(string(lines), want) {
					t.Errorf("the records have no %s", want)
				}
			}
			if stops := strings.Count(string(lines), `"type":"stop"`) + strings.Count(string(lines), `"type":"complete"`); (stops == 16) != (how == "") {
				t.Errorf("%d spans ended, want 16 only in a run with a proper end", stops)
			}
			whole, sinks := read(t, out)
			if whole.SessionTag != "tag" || len(whole.Processes) != 1 {
				t.Fatalf("job %+v, want tag tag and one process", whole)
			}
			for _, s := range sinks {
				var steps []int64
				first := job.Unknown
				for _, sp := range s.spans {
					if sp.Name == spans.TrainingIteration && sp.End != job.NoEnd {
						steps = append(steps, sp.Step)
					}
					if sp.Name == spans.TrainingLoop {
						first = sp.First
					}
				}
				if !slices.Equal(steps, []int64{10, 11, 12, 13, 14}) || first != 10 {
					t.Errorf("steps %v from %d, want 10 to 14 from 10", steps, first)
				}
				var want []string
				if how != "" {
					want = []string{spans.Application, spans.TrainingLoop, spans.TrainingIteration}
				}
				if got := s.open(); !slices.Equal(got, want) {
					t.Errorf("open are %v, want %v", got, want)
				}
			}
		})
	}
}

// TestCrossing checks that spans of threads, generators and tasks, out of order
// and failed, give a trace without findings.
func TestCrossing(t *testing.T) {
	rings := t.TempDir()
	pyrun.Run(t, rings, `
import asyncio, threading
from trainspan import _ring
from trainspan.dftracer import ai, dft_fn
n, m = _ring.name("a", "test"), _ring.name("b", "test")
def work():
    for i in range(200):
        a = _ring.start(n); b = _ring.start(m); c = _ring.start(n)
        _ring.end(a); _ring.end(_ring.start(m)); _ring.end(c); _ring.end(b)
        d = _ring.start(m); _ring.end(_ring.start(n)); _ring.drop(d)
def rows():
    for i in ai.dataloader.fetch.iter(range(3)):
        with ai.data.item:
            yield i
async def task(i):
    with ai.compute.forward:
        await asyncio.sleep(0.001 * i)
    @ai.compute.backward
    async def back():
        await asyncio.sleep(0.001)
    await back()
async def main():
    await asyncio.gather(*[task(i) for i in range(5)])
all = [threading.Thread(target=work) for _ in range(20)]
for t in all: t.start()
for t in all: t.join()
asyncio.run(main())
with ai.pipeline.train:
    g = rows(); next(g); next(g); g.close()
    fn = dft_fn("test", "scope")
    with fn as f:
        f.update(step=3, args={"x": 1})
@fn.log
def logged(step, other=2):
    return ai.comm.barrier(logged2)(step)
def logged2(x): raise KeyError(x)
try: logged(5)
except KeyError: pass
try:
    with ai.compute: raise ValueError()
except ValueError: pass
k = _ring.start(n)
t = threading.Thread(target=_ring.end, args=(k,)); t.start(); t.join()
ai.checkpoint.capture.stop()
e = _ring.start(_ring.name("it", "pipeline"), None, {"inferred": "x"})
for i in range(70): _ring.end(_ring.start(n))
_ring.drop(e)
_ring.event(n, _ring.now() - 10**9, _ring.now() - 10**8)
e = _ring.start(m, at=_ring.now() - 10**7)
_ring.end(_ring.start(n))
_ring.end(e, at=_ring.now() - 10**6)
d = _ring.start(m); e = _ring.start(n); _ring.end(_ring.start(m)); _ring.end(e); _ring.drop(d)
@fn.log
def on_batch_start(): ai.compute.step.start()
@ai.pipeline.test
def on_batch_end(): ai.compute.step.stop()
for i in range(10): on_batch_start(); on_batch_end()
ai.checkpoint.capture.start(); ai.compute.forward.start(); ai.checkpoint.capture.stop(); ai.compute.forward.stop()
ai.checkpoint.capture.start()
t = threading.Thread(target=ai.checkpoint.capture.stop); t.start(); t.join()
with ai.comm.send:
    ai.comm.send.start()
ai.comm.send.stop()
async def other(node, seconds):
    with node: await asyncio.sleep(seconds)
async def others(): await asyncio.gather(other(ai.comm.send, 0.01), other(ai.comm.receive, 0.02), other(ai.device, 0.03))
asyncio.run(others())
`)
	st, traces := importRings(t, pyring.Options{Attempt: -1}, rings)
	// Of each round in a thread: a, b, c, one inside, and the spans of the dropped
	// one.
	if want := int64(20*200*5 + 5 + 5 + (2 + 2 + 2) + 1 + 1 + 1 + 1 + 1 + 1 + 70 + 1 + 2 + 2 + 30 + 2 + 1 + 2 + 3); st.Spans != want || st.Bad != 0 || st.Lost != 0 || st.Open != 0 {
		t.Errorf("%d spans, want %d: %+v", st.Spans, want, st)
	}
	if report := dftest.Check(t, traces[0]); report.Orphans != 0 {
		t.Errorf("%d orphans, want 0", report.Orphans)
	}
}

// TestFixedArguments checks that a name may have arguments for each of its
// spans, from the start on, and that collectives have their number in the
// group, also the collective in which a process was killed.
func TestFixedArguments(t *testing.T) {
	rings := t.TempDir()
	cmd := pyrun.Command(t, rings, `
import os
from trainspan import _ring
def name(group):
    return _ring.name("all_reduce", "comm", "torch", 0, (("pg", group), ("bytes", 64)))
assert name("0") == name("0") != name("1")
for i in range(3):
    _ring.end(_ring.start(name("0")), None, None, None, i + 1)
_ring.end(_ring.start(name("1")), {"root": 2}, None, None, 1)
_ring.start(name("0"))
os.kill(os.getpid(), 9)
`)
	if err := cmd.Run(); err == nil {
		t.Fatal("the program ended without an error, want it killed")
	}
	st, traces := importRings(t, pyring.Options{Attempt: -1}, rings)
	if st.Spans != 4 || st.Open != 1 || st.Bad != 0 || st.Lost != 0 {
		t.Errorf("stats %+v, want 4 spans, 1 open, none lost or bad", st)
	}
	var got []string
	for _, s := range readTrace(t, traces[0]).named("comm/all_reduce") {
		got = append(got, fmt.Sprint(s.args["pg"], " ", s.args["seq"], " ", s.args["bytes"], " ", s.args["root"]))
	}
	if want := []string{"0 1 64 ", "0 2 64 ", "0 3 64 ", "1 1 64 2"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	_, sinks := read(t, filepath.Dir(traces[0]))
	for _, s := range sinks {
		for _, sp := range s.spans {
			if sp.End == job.NoEnd && (sp.Group != "0") {
				t.Errorf("open span %+v, want group 0", sp)
			}
		}
	}
}

// TestLogFile checks that the program names its log file, and that nothing is
// recorded by default.
func TestLogFile(t *testing.T) {
	dir := t.TempDir()
	for enable, want := range map[string]int{"": 0, "0": 0, "1": 1} {
		log := filepath.Join(dir, "logs"+enable, "job.pfw")
		cmd := pyrun.Command(t, "", filepath.Join("testdata", "ai_logging.py"), "normal", log)
		if enable != "" {
			cmd.Env = append(cmd.Env, "DFTRACER_ENABLE="+enable)
		}
		pyrun.Output(t, cmd)
		found, err := pyring.Rings(dir)
		if err != nil || len(found) != want {
			t.Fatalf("DFTRACER_ENABLE=%s: rings %v, error %v; want %d", enable, found, err, want)
		}
		if want > 0 {
			st, _ := importRings(t, pyring.Options{Out: filepath.Dir(found[0]), Attempt: -1}, dir)
			if len(st.Files) != 1 || !strings.HasPrefix(st.Files[0], strings.TrimSuffix(log, ".pfw")+"-") {
				t.Errorf("files %v, want one with the name of DFTRACER_LOG_FILE", st.Files)
			}
			if err := os.RemoveAll(filepath.Dir(log)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestUnpack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "client")
	if err := pyclient.Unpack(dir); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, error %v; want 0700", info.Mode(), err)
	}
	rings := t.TempDir()
	cmd := pyrun.Command(t, rings, "from trainspan.dftracer.python import ai\nwith ai.compute.forward: pass\n")
	cmd.Env = append(cmd.Env, "PYTHONPATH="+dir)
	pyrun.Output(t, cmd)
	if found, err := pyring.Rings(rings); err != nil || len(found) != 1 {
		t.Errorf("rings %v, error %v; want one", found, err)
	}
}

// TestClient runs the client's own tests, each file in a separate process.
func TestClient(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("tests", "test_*.py"))
	if err != nil || len(files) == 0 {
		t.Fatalf("files %v, %v; want one or more", files, err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			cmd := exec.Command(pyrun.Interpreter(t), "-B", "-m", "unittest", "discover", "-s", "tests", "-p", filepath.Base(path))
			cmd.Env = pyrun.Command(t, "", "").Env
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("tests of the client: %v\n%s", err, out)
			}
		})
	}
}

// TestOddNumbers checks that numbers that no slot can hold are left out before
// a slot is reserved; otherwise they would count as lost.
func TestOddNumbers(t *testing.T) {
	rings := t.TempDir()
	pyrun.Output(t, pyrun.Command(t, rings, `
from trainspan.dftracer import ai, dftracer
from trainspan import onelogger
import logging
logging.disable()
onelogger.TrainingTelemetryProvider.instance().with_config_override({"application_name": "a", "session_tag_or_fn": "s", "world_size_or_fn": 1}).configure_provider()
for odd in (1 << 80, -1 << 80, -1, 1.5, float("nan")):
    try:
        ai.update(epoch=odd, step=odd)
    except ValueError:
        assert odd != odd
    with ai.compute.forward: pass
    dftracer.get_instance().log_event("n", "c", odd, odd)
    for callback in (onelogger.on_model_init_start, onelogger.on_model_init_end):
        try:
            callback(odd)
        except onelogger.OneLoggerError:
            pass
`))
	if st, _ := importRings(t, pyring.Options{Attempt: -1}, rings); st.Lost != 0 || st.Bad != 0 || st.Spans < 5 {
		t.Errorf("stats %+v, want 5 spans or more, none lost or bad", st)
	}
}
