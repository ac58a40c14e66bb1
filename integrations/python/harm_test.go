//go:build linux

package python_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
)

// TestSignals checks that an exception from a signal handler reaches the
// program at any point, and that the ring buffer stays readable.
func TestSignals(t *testing.T) {
	check := func(t *testing.T, cmd *exec.Cmd, rings string, count int) {
		t.Helper()
		if out, want := pyrun.Output(t, cmd), fmt.Sprintf("%d of %d", count, count); out != want {
			t.Errorf("%s arrived, want %s", out, want)
		}
		st, err := pyring.Import(context.Background(), []string{rings}, pyring.Options{Out: t.TempDir(), Attempt: -1})
		if err != nil || st.Bad != 0 || st.Spans < int64(count) || st.Lost > int64(count) {
			t.Errorf("stats %+v, %v; want %d spans or more, at most as many lost, none bad", st, err, count)
		}
	}
	t.Run("ai", func(t *testing.T) {
		rings := t.TempDir()
		check(t, pyrun.Command(t, rings, "testdata/harm/signals.py", "ai", "800"), rings, 800)
	})
	t.Run("torch", func(t *testing.T) {
		j := newTorchJob(t, "./testdata/harm/signals.py", "torch", "400")
		check(t, j.Cmd, j.rings, 400)
	})
}

// TestTorchUnderUnusualLimits checks that a training program behaves the same if the device,
// address space, files, memory or permissions are unusual.
func TestTorchUnderUnusualLimits(t *testing.T) {
	for name, c := range map[string]struct {
		root bool // only root can create this condition
		none bool // nothing can be recorded
	}{
		"is_available": {}, "device_count": {}, "synchronize": {}, "address space": {}, "file size": {}, "found before": {},
		"locked": {root: true}, "no rights": {root: true, none: true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.root && os.Getuid() != 0 {
				t.Skip("only root may")
			}
			loops := []string{"plain"}
			if c.none {
				loops = append(loops, "chunks")
			}
			j := newTorchJob(t, "./testdata/harm/under.py", append([]string{name, "testdata/torch/loops.py"}, loops...)...)
			if c.none {
				j.readable(t)
			}
			out := j.run(t)
			if f := strings.Fields(out); len(f) != 3*len(loops) || f[0] != "plain" || f[2] != "0" || f[len(f)-1] != "0" {
				t.Errorf("program printed %q, want %v, each with a process and 0", out, loops)
			}
			rings, err := pyring.Rings(j.rings)
			if err != nil || len(rings) == 0 != c.none {
				t.Fatalf("rings %v, error %v; want none: %v", rings, err, c.none)
			}
			if c.none {
				return
			}
			if tr := only(t, j.traces(t), "pipeline/train"); tr.count["pipeline/train.iteration"] != 8 {
				t.Errorf("counts %v, want 8 iterations", tr.count)
			}
		})
	}
}

// TestTorchCapture checks that the client does not touch a graph during its
// capture.
func TestTorchCapture(t *testing.T) {
	if out := newTorchJob(t, "./testdata/harm/capture.py").run(t); out != "fine" {
		t.Errorf("it printed %q, want \"fine\"", out)
	}
}

// TestTorchDepth checks that modules may be nested as deeply as without the
// hooks, which add one call around the outermost.
func TestTorchDepth(t *testing.T) {
	depth := make(map[string]int)
	for _, on := range []string{"0", "1"} {
		j := newTorchJob(t, "./testdata/harm/depth.py")
		j.Env = append(j.Env, "TRAINSPAN_TORCH="+on)
		n, err := strconv.Atoi(j.run(t))
		if err != nil {
			t.Fatal(err)
		}
		depth[on] = n
	}
	if depth["0"] < 100 || depth["1"] < depth["0"]-1 {
		t.Errorf("%d levels of recursion with the client, %d without; want at most one fewer", depth["1"], depth["0"])
	}
}

// readable lets other users read the client.
func (j *torchJob) readable(t *testing.T) {
	t.Helper()
	for _, v := range j.Env {
		if path, ok := strings.CutPrefix(v, "PYTHONPATH="); ok {
			for _, dir := range []string{path, filepath.Dir(path), filepath.Dir(filepath.Dir(path))} {
				if err := os.Chmod(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if out, err := exec.Command("chmod", "-R", "a+rX", path).CombinedOutput(); err != nil {
				t.Fatalf("chmod: %v: %s", err, out)
			}
		}
	}
	if err := os.Chmod(j.rings, 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestFileSystems checks that ring buffers use at most 8 MiB in total on a
// small file system, and that nothing is recorded on a read-only one.
func TestFileSystems(t *testing.T) {
	const program = `
from trainspan import _ring as r
n = r.name("n", "test")
for i in range(1, 200001):
    r.end(r.start(n))
print(r.enabled())
`
	for name, c := range map[string]struct{ options, want string }{
		"Docker's":  {"size=64m", "True\n"},
		"small":     {"size=8m", "True\n"},
		"tiny":      {"size=1m", "False\n"},
		"read-only": {"ro,size=64m", "False\n"},
	} {
		t.Run(name, func(t *testing.T) {
			rings, used := t.TempDir(), filepath.Join(t.TempDir(), "used")
			cmd := pyrun.Command(t, rings, program)
			cmd.Args = append([]string{"sh", "-c", `mount -t tmpfs -o ` + c.options + ` none "$TRAINSPAN_RING" && "$@" && du -s -k "$TRAINSPAN_RING" >` + used, "sh"}, cmd.Args...)
			cmd.Path = "/bin/sh"
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
			if os.Getuid() != 0 {
				t.Skip("only root may mount")
			}
			if out := pyrun.Output(t, cmd); out != c.want {
				t.Errorf("it printed %q, want %q", out, c.want)
			}
			text, err := os.ReadFile(used)
			var kib int
			if _, scanned := fmt.Sscan(string(text), &kib); err != nil || scanned != nil || kib > 8<<10 {
				t.Errorf("process uses %q KiB, %v, %v; want at most 8 MiB", text, err, scanned)
			}
		})
	}
}

// TestProgramThatChangesItsEnvironment checks that a program that changes its own environment works as
// without the client.
func TestProgramThatChangesItsEnvironment(t *testing.T) {
	for name, program := range map[string]string{
		"address space after the first span": `
import mmap, resource
from trainspan.dftracer import ai
with ai.compute.forward: pass
resource.setrlimit(resource.RLIMIT_AS, (512 << 20,) * 2)
kept = mmap.mmap(-1, 256 << 20)
for _ in range(700000):
    with ai.compute.forward: pass
assert mmap.mmap(-1, 128 << 20)
`,
		"the file beside the log": `
import os
os.environ.pop("TRAINSPAN_RING"); os.environ["DFTRACER_ENABLE"] = "1"
from trainspan.dftracer import ai, dftracer
dftracer.initialize_log(os.path.join(os.getcwd(), "log", "trace"))
def size():
    (name,) = [n for n in os.listdir("log") if n.endswith(".ring")]
    return os.stat("log/" + name).st_size
with ai.compute.forward: pass
assert size() == 1 << 20, size()
for _ in range(700000):
    with ai.compute.forward: pass
assert size() <= 32 << 20, size()
dftracer.get_instance().finalize()
`,
		"names": `
import os
from trainspan import _ring as r
from trainspan.dftracer import dft_fn
for i in range(30000):
    with dft_fn("cat", name="step_%d" % i): pass
    r.name("n" * 1000 + str(i), "category %d" % i)
(names,) = [n for n in os.listdir(os.environ["TRAINSPAN_RING"]) if n.endswith(".names")]
text = open(os.path.join(os.environ["TRAINSPAN_RING"], names)).read()
assert text.count('"n":') <= 10200 and text.count("names_bounded") == 1, text.count('"n":')
for i in range(60000):
    r.meta("k", "v" * 1000)
assert os.stat(os.path.join(os.environ["TRAINSPAN_RING"], names)).st_size <= 8 << 20
`,
		"a tensor as an argument": `
class Tensor:
    shape = ()
    def wait(self, *_): raise SystemExit("it waits")
    __str__ = __repr__ = __int__ = __index__ = __float__ = __bool__ = item = tolist = __format__ = wait
from trainspan import onelogger as log
from trainspan.dftracer import ai, dft_fn, dftracer
log.TrainingTelemetryProvider.instance().with_config_override({"application_name": "a", "session_tag_or_fn": "s", "world_size_or_fn": 1}).configure_provider()
t = Tensor()
with ai.compute.forward(epoch=t, step=t, args={"loss": t}): pass
ai.update(step=t, args={"loss": t})
with dft_fn("c", step=t) as f: f.update(args={"loss": t})
dftracer.get_instance().log_metadata_event("loss", t)
dftracer.get_instance().log_event("n", "c", 5, 5, {"loss": t})
with log.timed_span("n", {"loss": t}) as s: s.add_attribute("loss", t)
`,
		"batches that it has dropped": `
import weakref
from trainspan.dftracer import ai, dft_fn
class Batch: pass
class Loader:
    n = 0
    def __iter__(self): return self
    def __next__(self):
        self.n += 1
        if self.n == 5: raise StopIteration
        return Batch()
for batches in (ai.dataloader.fetch.iter(Loader()), dft_fn("c").iter(Loader())):
    for batch in batches:
        of = weakref.ref(batch)
        del batch
        assert of() is None, "it is still in memory"
`,
		"a thread of C": `
import _thread, threading, time
from trainspan.dftracer import ai
done = []
def work():
    with ai.compute.forward: pass
    done.append(threading.enumerate())
_thread.start_new_thread(work, ())
while not done: time.sleep(0.001)
assert threading.enumerate() == [threading.main_thread()], threading.enumerate()
`,
		"spans of one-logger": `
import logging
logging.disable() # it says that it is not configured
from trainspan import onelogger as log
with log.application(), log.training_loop(train_iterations_start=0) as span, log.timed_span("n") as inner, log.checkpoint_save(global_step=1) as saved:
    for s in (span, inner, saved, log.on_validation_start()):
        s is None or s.add_attribute("a", 1); s is None or s.add_event(log.Event.create("b"))
`,
	} {
		t.Run(name, func(t *testing.T) {
			cmd := pyrun.Command(t, t.TempDir(), program)
			cmd.Dir = t.TempDir()
			pyrun.Output(t, cmd)
		})
	}
}
