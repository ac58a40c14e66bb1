"""Measures the cost of a span with DFTracer and with trainspan's API for it, in microseconds of
CPU time, and prints their ratio.

    python3 test/bench/python/dftracer_cost.py [ROUNDS]

The interpreter needs DFTracer: `tools/ci/originals dftracer` installs one at
$XDG_CACHE_HOME/trainspan/originals-dftracer/bin/python. Both libraries run in one process, in
alternating blocks, so that other load on the machine affects both. A figure is the median of
its blocks, over all threads of the process. Traces go to a temporary folder.

The row "least in Python" compares the original's with statement with one whose two methods only
read the clock and pack the times into shared memory: the minimum cost of a span in a client
without compiled code.
"""

import mmap
import os
import statistics
import struct
import sys
import tempfile
import time

TURNS = 1000
CLIENT = os.environ.get("CLIENT") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "integrations", "python")


def loop(body, **names):
    exec("def loop():\n for _ in range(%d): %s" % (TURNS, body), names)
    return names["loop"]


class Least:
    """A context manager that only packs its times."""

    def __init__(self):
        clock, page, pack = time.monotonic_ns, mmap.mmap(-1, 4096), struct.Struct("LLII32xL").pack_into
        begin = 0

        def enter(self):
            nonlocal begin
            begin = clock()
            return self

        def leave(self, kind, error, trace):
            pack(page, 0, begin, clock(), 1, 2, 3)

        type(self).__enter__, type(self).__exit__ = enter, leave


def bodies(api, least=None):
    """Returns the measured functions by name: each is a loop with a span per turn."""
    ai = api.ai
    node, fetch, args = ai.compute.backward, ai.dataloader.fetch, {"bytes": 4096, "pg": "dp"}

    @ai.compute.forward
    def decorated():
        pass

    @api.dft_fn("compute").log
    def logged():
        pass

    def drain(elements):
        for _ in elements:
            pass

    ai.device.disable()
    return {
        "with": loop("\n  with node: pass", node=node),
        "  least in Python": loop("\n  with node: pass", node=least or node),
        "decorator": loop("f()", f=decorated),
        "start and stop": loop("node.start(); node.stop()", node=node),
        "iter, an element": lambda: drain(fetch.iter(range(TURNS))),
        "dft_fn.log": loop("f()", f=logged),
        "with node(args=...)": loop("\n  with node(args=args): pass", node=node, args=args),
        "ai.update": loop("update(step=1)", update=ai.update),
        "with, switched off": loop("\n  with node: pass", node=ai.device),
    }


def main():
    rounds = int(sys.argv[1]) if sys.argv[1:] else 30
    folder = tempfile.TemporaryDirectory()
    os.chdir(folder.name)
    os.environ["DFTRACER_ENABLE"] = "1"
    sys.path.insert(0, CLIENT)
    import dftracer.python

    import trainspan.dftracer

    pair = dftracer.python, trainspan.dftracer
    logs = [api.dftracer.initialize_log(os.path.join(folder.name, "t.pfw"), None, -1) for api in pair]
    measured = bodies(pair[0]), bodies(pair[1], Least())
    clock, empty = time.process_time_ns, loop("pass")
    print("%-22s %10s %10s %7s" % ("us", "DFTracer", "trainspan", "ratio"))
    for name in measured[0]:
        took = [], []
        for _ in range(rounds):
            for times, of in zip(took, measured):
                t0 = clock()
                empty()
                t1 = clock()
                of[name]()
                times.append((clock() - t1 - (t1 - t0)) / TURNS / 1000)
        theirs, ours = map(statistics.median, took)
        print("%-22s %10.2f %10.2f %7.3f" % (name, theirs, ours, ours / theirs))
    for log in logs:
        log.finalize()


if __name__ == "__main__":
    main()
