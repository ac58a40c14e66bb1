package python_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/dftracer"
	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/testkit/dftest"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
	"github.com/trainspan/trainspan/internal/tracefile"
)

// lines returns the events of a trace by category, name and arguments, in the
// order of their ends, and its custom metadata.
func lines(t *testing.T, path string) (events []string, metadata map[string]string) {
	t.Helper()
	metadata = make(map[string]string)
	for _, ev := range dftest.Events(t, path) {
		if key, value := ev.Meta(); ev.Phase == dftracer.PhaseMetadata && ev.Name == tracefile.NameCustom {
			metadata[key] = value
		}
		entity := len(ev.Name) == 2 && ev.Name[0] == 'E'
		if ev.Cat == dftracer.CatDFTracer && !entity {
			continue
		}
		text := ev.Cat + "/" + ev.Name
		if entity {
			text = ev.Name
		}
		for _, a := range ev.Args {
			text += fmt.Sprintf(" %s=%s", a.Key, a.Text())
		}
		events = append(events, text)
	}
	return events, metadata
}

// TestDFTracerArguments checks every form in which the API sets the arguments
// of a span.
func TestDFTracerArguments(t *testing.T) {
	rings := t.TempDir()
	pyrun.Run(t, rings, filepath.Join("testdata", "dftracer", "api.py"))
	_, traces := importRings(t, pyring.Options{Attempt: -1}, rings)
	got, metadata := lines(t, traces[0])
	want := strings.Split(strings.TrimSpace(`
compute/forward epoch=3 arg1=value1 arg2=2
compute/backward step=4
data/item.init n=1
reader/Data.read epoch=5 step=7 image_idx=8 image_size=2.5
reader/Data.open step=1 image_idx=3
reader/Data.static
reader/named epoch=1 step=7 image_idx=8 otel.status_code=ERROR
loops/walk.iter epoch=9 at=1
loops/walk.yield epoch=9 list=[1, 'a'] whole=1099511627776 at=1
loops/walk.iter epoch=9 list=[1, 'a'] whole=1099511627776 at=2
loops/walk.yield epoch=9 list=[1, 'a'] whole=1099511627776 at=2
scopes/outer step=1 image_size=(224, 224)
scopes/outer step=1 image_size=(224, 224) relations={"used":["8bbc0ece1071d985"]}
own/op epoch=1 step=100
dataloader/fetch.iter shard=5 count=1
dataloader/fetch.block shard=5 count=1
checkpoint/checkpoint.io.close
other/other.log
data/data.io.read
compute/forward epoch=3 arg1=value1 arg2=2
compute/step step=2
own/past a=1 f=1.5 s=t
ET type=file role=1 description=what is read
EH id=8f0de68c04eea0bf type=protein_structure store=0 uri=
EH id=8bbc0ece1071d985 type=file store=0 uri=
EH id=8bbc0bce1071d46c type=file store=2 uri=/b
ER relation=18 subject=8bbc0ece1071d985 object=8bbc0bce1071d46c`), "\n")
	count := func(list []string) map[string]int {
		n := make(map[string]int)
		for _, s := range list {
			n[s]++
		}
		return n
	}
	gots, wants := count(got), count(want)
	for _, s := range slices.Sorted(maps.Keys(wants)) {
		if gots[s] != wants[s] {
			t.Errorf("%d times, want %d: %s", gots[s], wants[s], s)
		}
	}
	for _, s := range slices.Sorted(maps.Keys(gots)) {
		if wants[s] == 0 {
			t.Errorf("%d times, want none: %s", gots[s], s)
		}
	}
	if metadata["key"] != "value" || metadata["app.layers"] != "12" {
		t.Errorf("metadata %v, want key value and app.layers 12", metadata)
	}
}

// TestPlainTrace checks that a program can get an uncompressed trace.
func TestPlainTrace(t *testing.T) {
	dir := t.TempDir()
	cmd := pyrun.Command(t, "", "from trainspan.dftracer import ai, dftracer\nlog = dftracer.initialize_log("+fmt.Sprintf("%q", filepath.Join(dir, "x.pfw"))+")\nwith ai.compute.forward: pass\nlog.finalize()\n")
	cmd.Env = append(cmd.Env, "DFTRACER_ENABLE=1", "DFTRACER_TRACE_COMPRESSION=0")
	pyrun.Output(t, cmd)
	_, traces := importRings(t, pyring.Options{Attempt: -1}, dir)
	if len(traces) != 1 || filepath.Ext(traces[0]) != ".pfw" {
		t.Fatalf("traces %v, want one .pfw", traces)
	}
	text, err := os.ReadFile(traces[0])
	if err != nil || !strings.Contains(string(text), `"name":"forward","cat":"compute"`) {
		t.Errorf("trace is %s, %v; want a forward of compute", text, err)
	}
}

// TestRecordsElsewhere checks that a program without trainspan run, whose log is on a network file system, prints
// once where its records are, with a command that imports them, and that it prints why nothing is recorded.
func TestRecordsElsewhere(t *testing.T) {
	dir, temp := t.TempDir(), t.TempDir()
	run := func(local string) string {
		cmd := pyrun.Command(t, "", `
import multiprocessing, os, sys
from trainspan import _ring
real = _ring._filesystem
_ring._filesystem = lambda path: real(path) if path == os.environ["LOCAL"] else "nfs4"
from trainspan.dftracer import ai, dftracer
log = dftracer.initialize_log(os.environ["LOG"])
def work():
    with ai.compute.forward: pass
if __name__ == "__main__":
    work()
    for method in "fork", "spawn":
        process = multiprocessing.get_context(method).Process(target=work)
        process.start()
        process.join()
`)
		cmd.Env = append(cmd.Env, "DFTRACER_ENABLE=1", "LOG="+filepath.Join(dir, "run 1.pfw"), "TMPDIR="+temp, "LOCAL="+local, "LOCAL_RANK=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	got := run(temp)
	want := fmt.Sprintf("%s: unsupported file system type nfs4; /dev/shm: unsupported file system type nfs4; the records are in %s: import them on this node with "+
		"trainspan trace import '%s'-*.ring -o %s, then delete them; TRAINSPAN_RING chooses another folder\n", dir, temp, filepath.Join(temp, "run 1"), dir)
	if _, text, _ := strings.Cut(got, "]: "); text != want {
		t.Errorf("the program prints %q, want once %q", got, want)
	}
	rings, err := filepath.Glob(filepath.Join(temp, "run 1-*.ring"))
	if err != nil {
		t.Fatal(err)
	}
	if st, traces := importRings(t, pyring.Options{Attempt: -1, Out: dir}, rings...); len(traces) != 3 || st.Spans != 3 {
		t.Errorf("traces %v with %d spans, want three with one each", traces, st.Spans)
	}
	if got := run(""); strings.Count(got, "\n") != 1 || !strings.Contains(got, "nothing is recorded: "+dir+": unsupported file system type nfs4; ") {
		t.Errorf("without a folder the program prints %q, want once that nothing is recorded", got)
	}
}

// TestDFTracerSwitches checks that each call reads whether a node is enabled,
// also in methods that a program has stored and in iterators and spans that
// have begun.
func TestDFTracerSwitches(t *testing.T) {
	rings := t.TempDir()
	pyrun.Output(t, pyrun.Command(t, rings, `
from trainspan.dftracer import DFTracerAI, ai
fetch, forward = ai.dataloader.fetch, ai.compute.forward
fetch.disable()
for i in fetch.iter(range(3)):  # the wait for the second is the first that began while it was on
    fetch.enable()
for i in fetch.iter(range(2)):
    fetch.disable()
start, stop = forward.start, forward.stop
start(), stop()
forward.disable()
start(), stop()
forward.enable()
with ai.compute.backward:
    ai.compute.disable()
ai.compute.enable()
with ai.compute.backward:
    ai.compute.disable()
    ai.compute.enable()
step = ai.compute.step(lambda x: x)
step(1)
ai.compute.step.disable()
step(2)
ai.compute.step.enable()
given = ai.compute.step(lambda x: x, args={"a": 1})
given(3)
ai.disable()
given(4)
ai.enable()
own = DFTracerAI(cat="own", name="own")
call = own(lambda: None)
own.update(args={"k": 2})
call()
`))
	_, traces := importRings(t, pyring.Options{Attempt: -1}, rings)
	got, _ := lines(t, traces[0])
	want := strings.Split(strings.TrimSpace(`
dataloader/fetch.iter count=2
dataloader/fetch.block count=2
dataloader/fetch.iter count=3
dataloader/fetch.block count=3
dataloader/fetch.iter count=1
compute/forward
compute/backward
compute/step
compute/step a=1
own/own k=2`), "\n")
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestDFTracerSwitchedByAnotherThread checks that a span that is open on a
// thread while another thread switches its node off is dropped, and nothing
// else.
func TestDFTracerSwitchedByAnotherThread(t *testing.T) {
	rings := t.TempDir()
	pyrun.Output(t, pyrun.Command(t, rings, `
import threading
from trainspan.dftracer import ai
entered, disabled = threading.Event(), threading.Event()
def other():
    with ai.comm:
        with ai.device:
            entered.set()
            disabled.wait()
        for _ in range(3):
            with ai.device: pass
        with ai.comm.send: pass  # inside of comm alone: the span that was open is forgotten
thread = threading.Thread(target=other)
thread.start()
entered.wait()
ai.device.disable()
with ai.device: pass  # this thread has none open, the other has
disabled.set()
thread.join()
ai.device.enable()
with ai.device: pass
ai.device.disable()
with ai.device: pass
with ai.device: pass
ai.device.enable()
with ai.device: pass
`))
	_, traces := importRings(t, pyring.Options{Attempt: -1}, rings)
	got, _ := lines(t, traces[0])
	slices.Sort(got) // of two threads, in the order of their numbers
	want := []string{"comm/comm", "comm/send", "device/device", "device/device"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestFirstRecordOfAThread checks that any first record of a thread is recorded
// with that thread.
func TestFirstRecordOfAThread(t *testing.T) {
	rings := t.TempDir()
	pyrun.Output(t, pyrun.Command(t, rings, `
import threading
from trainspan import _ring
from trainspan.dftracer import ai, dftracer, dft_fn
def within(node):
    with node: pass
n, called = (_ring.name(name, "own") for name in ("start", "called"))
firsts = [
    lambda: within(ai.compute.forward),
    lambda: (ai.compute.backward.start(), ai.compute.backward.stop()),
    ai.compute.step(lambda: None),
    lambda: list(ai.dataloader.fetch.iter([1], include_block=False)),
    lambda: list(ai.data.item.iter([1], include_iter=False)),
    lambda: dftracer.get_instance().log_event("event", "own", dftracer.get_instance().get_time(), 0),
    dft_fn("own").log(lambda: None, name="log"),
    lambda: _ring.end(_ring.start(n)),
    lambda: _ring.end(_ring.start(_ring.name("args", "own"), None, {"a": 1})),
    lambda: _ring.called(called, _ring.clock(), 1, 2, 3, 0),
    lambda: _ring.point(_ring.name("point", "own")),
]
for f in firsts:
    thread = threading.Thread(target=f)
    thread.start()
    thread.join()
    # One that ends what no thread has begun has nothing to say.
    thread = threading.Thread(target=lambda: (ai.comm.stop(), _ring.stop(n), _ring.inside(n), _ring.crowded()))
    thread.start()
    thread.join()
`))
	st, traces := importRings(t, pyring.Options{Attempt: -1}, rings)
	var got []string
	threads := map[int64]string{}
	for _, ev := range dftest.Events(t, traces[0]) {
		if ev.Phase == dftracer.PhaseMetadata || ev.Cat == dftracer.CatDFTracer {
			continue
		}
		got = append(got, ev.Cat+"/"+ev.Name)
		if other, ok := threads[ev.TID]; ok {
			t.Errorf("%s and %s are of one thread, want a thread each", other, ev.Name)
		}
		threads[ev.TID] = ev.Name
	}
	slices.Sort(got)
	want := []string{
		"compute/backward", "compute/forward", "compute/step", "data/item.block", "dataloader/fetch.iter",
		"own/args", "own/called", "own/event", "own/log", "own/point", "own/start",
	}
	if !slices.Equal(got, want) || st.Lost != 0 {
		t.Errorf("records %v, %d lost; want %v", got, st.Lost, want)
	}
}

// TestDFTracerOverride checks that the with statements, decorators, start and
// stop of a class of the program are spans, once each.
func TestDFTracerOverride(t *testing.T) {
	rings := t.TempDir()
	pyrun.Output(t, pyrun.Command(t, rings, `
import contextlib
from trainspan.dftracer import DFTracerAI, ai
class Own(DFTracerAI):
    def __enter__(self):
        return super().__enter__()
own = Own(cat="own", name="own")
with own: pass
own.start(), own.stop()
own(lambda: None)()
with contextlib.ExitStack() as stack:
    stack.enter_context(ai.checkpoint.init)
type(ai).__enter__(ai.compute); type(ai).__exit__(ai.compute, KeyError, KeyError(), None)
`))
	_, traces := importRings(t, pyring.Options{Attempt: -1}, rings)
	got, _ := lines(t, traces[0])
	want := []string{"own/own", "own/own", "own/own", "checkpoint/checkpoint.init", "compute/compute otel.status_code=ERROR"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestSpansOfASpawnedProcess checks that a span and a decorated method that
// another process gets keep their names: the ids of names are those of a process.
func TestSpansOfASpawnedProcess(t *testing.T) {
	rings := t.TempDir()
	pyrun.Output(t, pyrun.Command(t, rings, `
import multiprocessing
import trainspan as ts
from trainspan.dftracer import dft_fn
class Data:
    def __init__(self):
        self.read, self.kept = ts.span("read", n=1), dft_fn("own", "kept")
    def item(self):
        with self.read, self.kept:
            pass
if __name__ == "__main__":
    others = [ts.span(name) for name in "abc"]
    data = Data()
    with data.read, data.kept:
        process = multiprocessing.get_context("spawn").Process(target=data.item)
        process.start()
        process.join()
    assert process.exitcode == 0
else:
    ts.span("first of the child")
`))
	st, traces := importRings(t, pyring.Options{Attempt: -1}, rings)
	if len(traces) != 2 || st.Bad != 0 {
		t.Fatalf("traces %v, %d bad records, want two and none", traces, st.Bad)
	}
	want := []string{"own/kept", "span/read n=1"}
	for _, path := range traces {
		if got, _ := lines(t, path); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", filepath.Base(path), got, want)
		}
	}
}
