package python_test

import (
	"maps"
	"strconv"
	"testing"

	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
)

// TestSteps checks consecutive steps over several regions of the ring buffer,
// each with the number after the previous one, its wait and its parts, and
// steps that end in other ways.
func TestSteps(t *testing.T) {
	rings := t.TempDir()
	pyrun.Run(t, rings, `
from trainspan import _ring
wait, a, b = (_ring.name(n, "test", "torch") for n in ("wait", "a", "b"))
n = _ring.name("step.iteration", "pipeline", "torch", 0, (wait, a, b))
inner, other, clock = _ring.name("inner", "test"), _ring.name("other.iteration", "pipeline", "torch"), _ring.clock
outer = _ring.start(_ring.name("outer", "test"))
v, token = _ring.step(n)
def go_on(step):
    "As the hooks do."
    global v
    try:
        new = _ring.slots.step()
        v[5] = step
        v[3] = new[1] = clock()
        v = new
        _ring.end(_ring.start(inner))
        new[2] = clock()
    except StopIteration:
        _ring.end_step(v, token, n, None, step)
        return _ring.step(n)
    return v, token
for i in range(10000):
    v[8] = clock()
    _ring.end(_ring.start(inner))
    v[9] = v[10] = clock()
    _ring.end(_ring.start(inner))
    _ring.end(_ring.start(inner))
    v[11] = clock()
    v, token = go_on(i + 1)
_ring.end_step(v, token, other, None, 0, 5)
v, token = _ring.step(n)
v[8] = clock(); _ring.end(_ring.start(inner)); v[9] = clock()
_ring.end_step(v, token, n | _ring.DROP)
v, token = _ring.step(n)
crossed = _ring.start(inner)
_ring.end_step(v, token, n)
_ring.end(crossed)
_ring.end(outer)
`)
	st, traces := importRings(t, pyring.Options{Attempt: -1}, rings)
	tr := readTrace(t, traces[0])
	steps, waits := tr.named("pipeline/step.iteration"), tr.named("test/wait")
	if len(steps) != 10001 || len(waits) < 9990 || st.Bad != 0 || st.Lost != 0 || st.Open != 0 || tr.count["pipeline/other.iteration"] != 1 {
		t.Errorf("%d steps, %d waits: %v, %+v; want 10001, 9990 or more, none bad, lost or open", len(steps), len(waits), tr.count, st)
	}
	for i, s := range steps[1:10000] {
		if s.args["step"] != strconv.Itoa(i+1) {
			t.Fatalf("step %d has the step %q, want the same", i+1, s.args["step"])
		}
	}
	if s := tr.named("pipeline/other.iteration")[0]; s.args["count"] != "5" {
		t.Errorf("iteration of another name has %v, want count 5", s.args)
	}
	parents := make(map[string]int)
	for _, s := range append(tr.named("test/inner"), append(tr.named("test/a"), tr.named("test/b")...)...) {
		if s.up == nil {
			t.Fatalf("%s has no parent", s.name)
		}
		parents[s.name+" in "+s.up.name]++
	}
	want := map[string]int{
		"test/a in pipeline/step.iteration": 10000, "test/b in pipeline/step.iteration": 10000, "test/a in test/outer": 1,
		"test/inner in test/a": 10001, "test/inner in test/b": 20000, "test/inner in test/wait": len(waits), "test/inner in pipeline/step.iteration": 10000 - len(waits), "test/inner in test/outer": 1,
	}
	if delete(parents, "test/inner in pipeline/step.iteration"); len(waits) < 10000 {
		delete(want, "test/inner in pipeline/step.iteration")
	}
	if !maps.Equal(parents, want) {
		t.Errorf("parents are %v\nwant %v", parents, want)
	}
}

// TestStepEndsWithItsEpoch checks that a step that ends at the same time as the
// enclosing span nests below that span.
func TestStepEndsWithItsEpoch(t *testing.T) {
	rings := t.TempDir()
	pyrun.Run(t, rings, `
from trainspan import _ring
part = _ring.name("part", "test", "torch")
n = _ring.name("step.iteration", "pipeline", "torch", 0, (part, part))
epoch = _ring.start(_ring.name("epoch", "test"))
v, token = _ring.step(n)
v[8] = _ring.clock(); v[9] = _ring.clock()
at = _ring.now()
_ring.end_step(v, token, n, at, 1)
_ring.end(epoch, None, None, at)
`)
	st, traces := importRings(t, pyring.Options{Attempt: -1}, rings)
	parts := readTrace(t, traces[0]).named("test/part")
	if len(parts) != 1 || !parts[0].below("pipeline/step.iteration") || !parts[0].below("test/epoch") || st.Lost != 0 || st.Open != 0 {
		t.Errorf("parts %+v, %+v; want one, inside a step of its epoch", parts, st)
	}
}

// TestSpanWithAFutureStart checks that a span with a start in the future does not
// change the open step.
func TestSpanWithAFutureStart(t *testing.T) {
	rings := t.TempDir()
	pyrun.Run(t, rings, `
from trainspan import _ring
part, inner = _ring.name("part", "test", "torch"), _ring.name("inner", "test")
n = _ring.name("step.iteration", "pipeline", "torch", 0, (part, part))
v, token = _ring.step(n)
v[8] = _ring.clock()
_ring.event(_ring.name("dated", "test"), _ring.now(), _ring.now() + 10**10)
_ring.end(_ring.start(inner))
v[9] = _ring.clock()
_ring.end(_ring.start(_ring.name("after", "test")))
_ring.end_step(v, token, n, None, 1)
v, token = _ring.step(n)
v[8] = _ring.clock()
_ring.end(_ring.start(inner))
v[9] = _ring.clock()
_ring.end_step(v, token, n, None, 2)
`)
	st, traces := importRings(t, pyring.Options{Attempt: -1}, rings)
	tr := readTrace(t, traces[0])
	for _, s := range tr.named("test/inner") {
		if s.up == nil || s.up.name != "test/part" {
			t.Errorf("parent of inner is %+v, want test/part", s.up)
		}
	}
	if after := tr.named("test/after"); len(after) != 1 || after[0].up == nil || after[0].up.name != "pipeline/step.iteration" || tr.count["test/inner"] != 2 || tr.count["test/part"] != 2 || st.Lost != 0 {
		t.Errorf("parent of after is %+v, counts %v, %+v; want a step, 2 of inner and part, none lost", after, tr.count, st)
	}
}
