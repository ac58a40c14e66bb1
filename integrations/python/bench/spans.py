"""Measures the cost of a span, in nanoseconds and as a multiple of two reads of the clock
in the same run: only the multiples can be compared between machines.

    TRAINSPAN_RING=/dev/shm python3 integrations/python/bench/spans.py

With the argument `load` it records for some seconds at a steady rate instead:

    python3 spans.py load SECONDS SPANS_PER_SECOND
"""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from trainspan import _ring  # noqa: E402
from trainspan.dftracer import ai, dft_fn  # noqa: E402

TURNS, REPEATS = 1000, 400


def cost(body, **names):
    """Returns the minimum time of one turn of a loop, without the loop itself."""

    def loop(body):
        text = "def loop():\n for _ in range(%d): %s" % (TURNS, body)
        scope = dict(names)
        exec(text, scope)
        loop = scope["loop"]
        best = float("inf")
        for _ in range(REPEATS):
            t = time.perf_counter_ns()
            loop()
            best = min(best, time.perf_counter_ns() - t)
        return best / TURNS

    return loop(body) - loop("pass")


def measure():
    forward, step = ai.compute.forward, ai.compute.step
    assert _ring.enabled(), "set TRAINSPAN_RING"

    @forward
    def wrapped():
        pass

    @dft_fn("compute").log
    def logged():
        pass

    @step
    def later():
        pass

    n = _ring.name("x", "compute")
    clocks = cost("now(); now()", now=time.time_ns)
    rows = [
        ("with", cost("\n  with node: pass", node=forward)),
        ("start_end", cost("end(start(n))", start=_ring.start, end=_ring.end, n=n)),
        ("node_start_stop", cost("node.start(); node.stop()", node=forward)),
        ("decorator", cost("f()", f=wrapped)),
        ("dft_fn_log", cost("f()", f=logged)),
        ("arguments", cost("end(start(n), args)", start=_ring.start, end=_ring.end, n=n, args={"bytes": 4096, "pg": "dp"})),
        ("update", cost("update(step=1)", update=ai.update)),
    ]
    ai.disable()
    rows += [("off_with", cost("\n  with node: pass", node=forward)), ("off_decorator", cost("f()", f=later))]
    print("%-16s %7.0f ns" % ("two_clocks", clocks))
    for name, ns in rows:
        print("%-16s %7.0f ns  %5.2f x" % (name, ns, ns / clocks))


def load(seconds, rate):
    """Records steps of a hundred spans at a constant rate."""
    forward, backward = ai.compute.forward, ai.compute.backward
    end = time.perf_counter() + seconds
    due = time.perf_counter()
    spans = 0
    while due < end:
        for _ in range(33):
            with forward:
                with backward:
                    pass
            with backward:
                pass
        spans += 99
        due += 99 / rate
        left = due - time.perf_counter()
        if left > 0:
            time.sleep(left)
    print(spans)


if __name__ == "__main__":
    if sys.argv[1:2] == ["load"]:
        load(float(sys.argv[2]), float(sys.argv[3]))
    else:
        measure()
