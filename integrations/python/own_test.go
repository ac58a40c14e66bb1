package python_test

import (
	"cmp"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/testkit/built"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
)

// The start of a program that imports trainspan as ts.
const ownProgram = `
import asyncio
import trainspan as ts

@ts.span("tokenize", kind="bpe")
def tokenize(): pass

@ts.span("fetch")
async def fetch(): await asyncio.sleep(0)

@ts.step
def one(): pass

tokenize()
for i in range(3):
    with ts.step(shard=i):
        with ts.span("forward"): pass
        with ts.span("log", n=i) as s: s.add(tokens=4)
        ts.metric(loss=0.5)
with ts.step(10): pass
one()
asyncio.run(fetch())
try:
    with ts.span("bad"): raise ValueError
except ValueError: pass
with ts.span("data"): pass
with ts.step([]): pass  # no number: telemetry ends no program

# As the callbacks of a trainer do.
step, wait = ts.step(20), ts.span("data")
wait.stop()  # nothing was started
for _ in range(2):
    wait.start()
    wait.stop()
    step.start()
    with ts.span("update"): pass
    step.stop()
with ts.span("compile"): pass
`

// TestOwnNames checks what the functions of the package record.
func TestOwnNames(t *testing.T) {
	rings := t.TempDir()
	pyrun.Run(t, rings, ownProgram)
	_, traces := importRings(t, pyring.Options{Attempt: -1}, rings)
	got, _ := lines(t, traces[0])
	want := strings.Split(strings.TrimSpace(`
span/tokenize kind=bpe
compute/forward step=0
span/log step=0 n=0 tokens=4
metric/metric step=0 loss=0.5
pipeline/train.iteration step=0 shard=0
compute/forward step=1
span/log step=1 n=1 tokens=4
metric/metric step=1 loss=0.5
pipeline/train.iteration step=1 shard=1
compute/forward step=2
span/log step=2 n=2 tokens=4
metric/metric step=2 loss=0.5
pipeline/train.iteration step=2 shard=2
pipeline/train.iteration step=10
pipeline/train.iteration step=11
span/fetch step=11
span/bad step=11 otel.status_code=ERROR
dataloader/fetch.iter step=11
pipeline/train.iteration step=11
dataloader/fetch.iter step=11
compute/update step=20
pipeline/train.iteration step=20
dataloader/fetch.iter step=20
compute/update step=21
pipeline/train.iteration step=21
compile/graph_compile step=21`), "\n")
	if !slices.Equal(got, want) {
		t.Errorf("events:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestOwnReport checks that the report has the steps of the package and its
// spans.
func TestOwnReport(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command")
	}
	command, dir := built.Command(t), filepath.Join(t.TempDir(), "run")
	program := pyrun.Command(t, "", `
import time
import trainspan as ts
for i in range(20):
    with ts.step():
        with ts.span("forward"): time.sleep(0.002)
with ts.span("generate"): time.sleep(0.1)
`)
	run := exec.Command(command, append([]string{"run", "--quiet", "--dir", dir, "--"}, program.Args...)...)
	run.Env = slices.DeleteFunc(program.Env, func(v string) bool { return strings.HasPrefix(v, "PYTHONPATH=") })
	pyrun.Output(t, run)
	text, err := exec.Command(command, "report", "--json", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Steps struct {
			Count  int
			Phases map[string]float64 `json:"phases_ms"`
		}
		Ledger struct {
			Categories map[string]int64 `json:"categories_ns"`
		}
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.Steps.Count != 20 || got.Steps.Phases["forward"] == 0 || got.Ledger.Categories["custom.generate"] < 1e8 {
		t.Errorf("report = %+v, want 20 steps with forward, and at least 0.1 s of custom.generate", got)
	}
}

// TestOwnSharedSpan checks that each use of a span has its own start and end if
// threads or tasks use one object at the same time.
func TestOwnSharedSpan(t *testing.T) {
	const threads = `
entered, leaving = [[threading.Event() for _ in range(3)] for _ in range(2)]
def work(n):
    entered[n].set()
    leaving[n].wait()
all = [threading.Thread(target=use, args=(n,)) for n in range(3)]
for n in range(3):
    all[n].start()
    entered[n].wait()
for n in range(3):
    leaving[n].set()
    all[n].join()
`
	for name, program := range map[string]string{
		"threads": `
def use(n):
    with shared:
        work(n)
` + threads,
		"steps": `
@ts.step
def use(n): work(n)
` + threads,
		"tasks": `
async def use(n):
    await entering[n].wait()
    async with shared:
        entering[n + 1].set()
        await leaving[n].wait()
    leaving[n + 1].set()
async def main():
    global entering, leaving
    entering, leaving = [[asyncio.Event() for _ in range(4)] for _ in range(2)]
    all = [asyncio.ensure_future(use(n)) for n in range(3)]
    entering[0].set()
    await entering[3].wait()
    leaving[0].set()
    await asyncio.gather(*all)
asyncio.run(main())
`,
		"callbacks": `
def call(f): contextvars.copy_context().run(f)
for _ in range(3):
    call(shared.start)
    call(shared.stop)
call(shared.stop)
`,
	} {
		t.Run(name, func(t *testing.T) {
			rings := t.TempDir()
			pyrun.Run(t, rings, "import asyncio, contextvars, threading\nimport trainspan as ts\nshared = ts.span('shared')\n"+program)
			_, traces := importRings(t, pyring.Options{Attempt: -1}, rings)
			all := readTrace(t, traces[0]).spans
			slices.SortFunc(all, func(a, b *span) int { return cmp.Compare(a.TS, b.TS) })
			if len(all) != 3 {
				t.Fatalf("%d spans, want 3", len(all))
			}
			for i, s := range all[1:] {
				if end, before := s.TS+s.Dur, all[i].TS+all[i].Dur; end < before {
					t.Errorf("span %d ends %d µs before the one that began before it, want after it", i+1, before-end)
				}
			}
		})
	}
}

// TestOwnGenerators checks that a span around a generator function is the time
// in which it runs, not that of its user, and that it is a generator function.
func TestOwnGenerators(t *testing.T) {
	rings := t.TempDir()
	pyrun.Run(t, rings, `
import asyncio, inspect, time
import trainspan as ts
@ts.span("plain")
def plain(n):
    "Doc."
    for i in range(n):
        time.sleep(0.02)
        try:
            got = yield i
        except KeyError:
            got = "thrown"
        told.append(got)
    return "end"
@ts.span("asynchronous")
async def asynchronous(n):
    for i in range(n):
        await asyncio.sleep(0.02)
        try:
            got = yield i
        except KeyError:
            got = "thrown"
        told.append(got)
@ts.step
def steps():
    try:
        yield from range(3)
    finally:
        told.append("closed")
class Owner:
    @staticmethod
    @ts.span("static")
    def made(): yield from "ab"
    @ts.span("static")
    @staticmethod
    def outer(): yield from "ab"
@ts.span("fails")
def fails():
    yield 1
    raise ValueError("no")
assert inspect.isgeneratorfunction(plain) and inspect.isgeneratorfunction(steps) and inspect.isasyncgenfunction(asynchronous)
assert (plain.__name__, plain.__doc__) == ("plain", "Doc.")
told = []
g = plain(3)
assert next(g) == 0
time.sleep(0.5)
assert g.send("sent") == 1 and g.throw(KeyError("x")) == 2
try: next(g)
except StopIteration as e: assert e.value == "end"
assert told == ["sent", "thrown", None], told
async def main():
    told.clear()
    g = asynchronous(3)
    assert await g.__anext__() == 0
    time.sleep(0.5)
    assert await g.asend("sent") == 1 and await g.athrow(KeyError("x")) == 2
    assert [x async for x in g] == [] and told == ["sent", "thrown", None], told
    g = asynchronous(3)
    await g.asend(None)
    await g.aclose()
asyncio.run(main())
told.clear()
for i in steps():
    if i == 1: break
import gc; gc.collect()
assert told == ["closed"], told
assert list(Owner.made()) + list(Owner().outer()) == ["a", "b"] * 2
try: print(list(fails()))
except ValueError: pass
`)
	_, traces := importRings(t, pyring.Options{Attempt: -1}, rings)
	tr := readTrace(t, traces[0])
	for name, want := range map[string]int{"span/plain": 4, "span/asynchronous": 5, "span/static": 6, "span/fails": 2, "pipeline/train.iteration": 2} {
		if got := tr.count[name]; got != want {
			t.Errorf("%d of %s, want %d", got, name, want)
		}
	}
	for _, name := range []string{"span/plain", "span/asynchronous"} {
		for i, s := range tr.named(name)[:3] {
			if s.Dur < 20_000 || s.Dur > 400_000 {
				t.Errorf("%s %d takes %d µs, want 20 ms or a little more", name, i, s.Dur)
			}
		}
	}
	if s := tr.named("span/fails"); len(s) == 2 && (s[0].args["otel.status_code"] != "" || s[1].args["otel.status_code"] != "ERROR") {
		t.Errorf("spans that fail: %v and %v, want an error in the second one", s[0].args, s[1].args)
	}
}

// TestOwnSpansOverFork checks that spans that are open at a fork are recorded
// once, by the parent, also if the child ends them too.
func TestOwnSpansOverFork(t *testing.T) {
	rings := t.TempDir()
	out, err := pyrun.Command(t, rings, `
import os
import trainspan as ts
from trainspan.dftracer import ai

wait = ts.span("wait")
with ai.pipeline.train, ts.span("outer"):
    ai.compute.backward.start()
    wait.start()
    pid = os.fork()
    with ai.compute.forward: pass
    wait.stop()
    ai.compute.backward.stop()
if pid:
    os.waitpid(pid, 0)
`).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	st, traces := importRings(t, pyring.Options{Attempt: -1}, rings)
	if st.Spans != 6 || st.Open != 0 || st.Lost != 0 || len(traces) != 2 {
		t.Fatalf("%d traces, %+v; want 2, with 6 spans", len(traces), st)
	}
	total := map[string]int{}
	for _, f := range traces {
		for name, n := range readTrace(t, f).count {
			total[name] += n
		}
	}
	for name, want := range map[string]int{"pipeline/train": 1, "span/outer": 1, "span/wait": 1, "compute/backward": 1, "compute/forward": 2} {
		if total[name] != want {
			t.Errorf("%d of %s, want %d", total[name], name, want)
		}
	}
}
