package python_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trainspan/trainspan/internal/ingest/pyring"
	"github.com/trainspan/trainspan/internal/testkit/pyrun"
)

// interpreters returns the interpreters for the tests: the usual one and, if
// installed, the oldest and the newest that the client supports.
func interpreters(t *testing.T) (paths []string) {
	t.Helper()
	paths = append(paths, pyrun.Interpreter(t))
	home, _ := os.UserHomeDir()
	for _, pattern := range []string{"3.8", "3.13", "3.14"} {
		found, _ := filepath.Glob(filepath.Join(home, ".pyenv/versions", pattern+".*", "bin", "python"+pattern))
		if path, err := exec.LookPath("python" + pattern); err == nil && exec.Command(path, "-c", "").Run() == nil {
			found = append(found, path)
		}
		if len(found) > 0 && !slices.Contains(paths, found[0]) {
			paths = append(paths, found[0])
		}
	}
	return paths
}

// everyPython runs a program in each of the interpreters, and fails the test if
// it writes to its standard error.
func everyPython(t *testing.T, program, want string) {
	t.Helper()
	for _, interpreter := range interpreters(t) {
		t.Run(filepath.Base(interpreter), func(t *testing.T) {
			rings := t.TempDir()
			cmd := pyrun.Command(t, rings, program)
			cmd.Path, cmd.Args[0] = interpreter, interpreter
			if got := pyrun.Output(t, cmd); strings.TrimSpace(got) != want {
				t.Errorf("%s prints %q, want %q", interpreter, got, want)
			}
			st, err := pyring.Import(context.Background(), []string{rings}, pyring.Options{Out: t.TempDir(), Attempt: -1})
			if err != nil || st.Spans == 0 || st.Bad != 0 {
				t.Errorf("%+v, error %v; want spans, none of them bad", st, err)
			}
		})
	}
}

// TestRecursionErrorIsCaught checks that a program that catches the
// RecursionError of a recorded function continues, also in Python 3.8, which
// ends a program that exceeds the limit a second time.
func TestRecursionErrorIsCaught(t *testing.T) {
	everyPython(t, `
from trainspan.dftracer import ai, dft_fn
fn = dft_fn("x")
@ai.compute.forward
def decorated(k):
    return decorated(k + 1)
@fn.log
def logged(k):
    return logged(k + 1)
def inside(k):
    with ai.compute.backward:
        return inside(k + 1)
def both(k):
    ai.compute.step.start()
    both(k + 1)
    ai.compute.step.stop()
def iterated(k):
    for _ in ai.dataloader.fetch.iter(range(1)):
        return iterated(k + 1)
for f in (decorated, logged, inside, both, iterated):
    for _ in range(3):
        try:
            f(0)
        except RecursionError:
            pass
with ai.compute.forward:
    print("on")
`, "on")
}

// TestArgumentsThatRaise checks arguments that raise an exception in any of
// their methods.
func TestArgumentsThatRaise(t *testing.T) {
	everyPython(t, `
from trainspan.dftracer import ai, dft_fn
class Sly:
    @property
    def __class__(self):
        raise RuntimeError("class")
class Torn(dict):
    def items(self):
        raise RuntimeError("items")
class Hidden:
    def __getattribute__(self, name):
        raise RuntimeError(name)
class Mute:
    def __str__(self):
        raise RuntimeError("str")
for args in ({"a": Sly()}, Torn(a=1), Hidden(), {"a": Hidden()}, {"a": Mute()}, {Mute(): 1}, {"a": [Sly()]}):
    ai.update(args=args)
    ai.compute.update(epoch=1, args=args)
    with ai.compute.forward(args=args):
        pass
    with dft_fn("x", "y") as f:
        f.update(args=args)
for value in (Sly(), Hidden(), Mute()):  # no number: as in the original a TypeError, and of int alone
    for call in (lambda: dft_fn("x", "y", image_idx=value), lambda: ai.compute.update(image_idx=value)):
        try:
            call()
        except TypeError:
            continue
        raise AssertionError(call)
print("on")
`, "on")
}

// TestAnnotationsAreNotEvaluated checks that a decorator accepts a function whose
// annotations have a name that does not exist yet, or only for a type checker:
// since Python 3.14 these are evaluated when they are read.
func TestAnnotationsAreNotEvaluated(t *testing.T) {
	everyPython(t, `
import sys, typing
import trainspan as ts
from trainspan.dftracer import DFTracerAI, ai, dft_fn
class Own(DFTracerAI):
    def __enter__(self):
        return super().__enter__()
own, log = Own(cat="own", name="own"), dft_fn("own").log
text = """
class Node:
    @ts.span("merge")
    def merge(self, other: Node) -> Node: return other
    @ts.step
    def step(self, other: Node) -> Node: return other
    @ts.span("rows")
    def rows(self, other: Node) -> Node: yield other
    @ts.span("wait")
    async def wait(self, other: Node) -> Node: return other
    @ai.compute.forward
    def forward(self, other: Node) -> Node: return other
    @own
    def own(self, other: Node) -> Node: return other
    @log
    def log(self, other: Node) -> Node: return other
@ai.compute.backward
def checked(x: TypeChecked): return x
"""
if sys.version_info < (3, 14):
    text = "from __future__ import annotations\n" + text
exec(text)
for f in (Node.merge, Node.step, Node.rows, Node.wait, Node.forward, Node.own, Node.log):
    assert typing.get_type_hints(f, globals()) == {"other": Node, "return": Node}, f
def given(): pass
given.__annotations__ = {"x": int}
assert ts.span("given")(given).__annotations__ == {"x": int}
Node().merge(checked(1))
print("on")
`, "on")
}

// TestSignalStormIsCounted checks that records of signal handlers are in the
// ring buffer or counted as lost, also while the ring buffer is created and
// while the program switches to another region.
func TestSignalStormIsCounted(t *testing.T) {
	for _, interpreter := range interpreters(t) {
		t.Run(filepath.Base(interpreter), func(t *testing.T) {
			rings := t.TempDir()
			cmd := pyrun.Command(t, rings, `
import signal
from trainspan.dftracer import ai
made = 0
def handler(number, frame):
    global made
    with ai.compute.backward:
        made += 1
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 1e-5, 1e-4)
while made < 5: # in part before anything of the program itself is recorded
    pass
for i in range(30000):
    with ai.compute.forward:
        pass
signal.setitimer(signal.ITIMER_REAL, 0)
print(made + 30000)
`)
			cmd.Path, cmd.Args[0] = interpreter, interpreter
			made, err := strconv.ParseInt(strings.TrimSpace(pyrun.Output(t, cmd)), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			st, err := pyring.Import(context.Background(), []string{rings}, pyring.Options{Out: t.TempDir(), Attempt: -1})
			if err != nil || st.Bad != 0 || st.Spans > made || st.Spans+st.Lost < made {
				t.Errorf("%d spans were made, %d recorded and %d lost, want them all accounted for (%+v, error %v)", made, st.Spans, st.Lost, st, err)
			}
		})
	}
}
