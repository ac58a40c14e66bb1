"""Delays of `trainspan run --inject`, to compare its diagnosis with a known truth. Imported
only if there are some.

A delay is inside of the span that it delays, which has it as an attribute: a delay that cannot
be marked is not made. The hooks use their slow path meanwhile, because the spans of the fast
one have no attributes.
"""

import functools
import json
import os
import sys
import time
from threading import get_ident

from trainspan import _ring, quiet

# The innermost span around a delay, by phase.
_INSIDE = {
    "data": ("fetch.iter",), "forward": ("forward",), "backward": ("backward",), "save": ("capture", "capture.async"),
    "evaluate": ("forward",), "code": ("train.iteration",),
}
_RANKS = "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "FLUX_TASK_RANK", "SLURM_PROCID"
_sleep = time.sleep


def _rank():
    """Returns the rank of this process, 0 without a launcher."""
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        return dist.get_rank()
    for name in _RANKS:
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 0


class _Delay:
    """One requested delay, and its number of occurrences."""

    def __init__(self, asked):
        self.rank, self.phase, self.text = asked.get("rank"), asked["phase"], asked["text"]
        self.ns, self.jitter, self.every = asked["delay_ns"], asked.get("jitter_ns", 0), asked["every"]
        self.first, self.last = asked.get("from", 0), asked.get("to", float("inf"))
        self.seen, self.made, self.spent, self.key = 0, 0, 0, None

    def due(self, step, key):
        """Returns the ns to wait, 0 for no delay. For one key, such as a step, only the first
        call counts."""
        if not self.first <= step <= self.last or self.key == key:
            return 0
        self.key = key
        self.seen += 1
        if (self.seen - 1) % self.every:
            return 0
        if not self.jitter:
            return self.ns
        return self.ns + self.random.randint(-self.jitter, self.jitter)

    @property
    def random(self):
        import random

        self.__dict__["random"] = made = random.Random(self.rank)  # a separate generator: the program's is unchanged
        return made


class Delays:
    """The delays of this process."""

    def __init__(self, loop, text):
        self.loop = loop
        self.all = [_Delay(asked) for asked in json.loads(text)]
        self.marks = {}  # by the id of a token: the token, and the arguments of its span
        self.watch(loop, self.marks, _ring.end, loop.finish)

    def watch(self, loop, marks, plain, finish):
        """Marks delayed spans, and makes all of them use the slow path."""

        def end(token, args=None, n=None, at=None, count=0):
            if token is not None and id(token) in marks:
                args = dict(args or (), injected_ms=marks.pop(id(token))[1])
            plain(token, args, n, at, count)

        def step(n, at=None):
            return None  # a step is an ordinary span

        def finished(pid):
            if pid == os.getpid():
                self.tell()
            finish(pid)

        _ring.end, _ring.step, loop.quicken, loop.finish = end, step, loop.slow, finished

    def before(self, phase, fn):
        """Wraps fn so that it runs after the delays of a phase; returns fn itself if there are
        none."""
        mine = [d for d in self.all if d.phase == phase]
        if not mine:
            return fn

        def call(*args, **kwargs):
            for delay in mine:
                self.wait(delay, args)
            return fn(*args, **kwargs)

        return functools.update_wrapper(call, fn) if hasattr(fn, "__name__") else call

    def wait(self, delay, args):
        ns = self.due(delay, args)
        if ns:
            begin = time.monotonic_ns()
            try:
                _sleep(ns / 1e9)
            finally:
                self.note(delay, time.monotonic_ns() - begin)

    @quiet
    def due(self, delay, args):
        from . import hooks

        loop = self.loop
        if hooks._compiling() or delay.rank is not None and delay.rank != _rank():
            return 0
        top = _ring.innermost()
        if top is None or top[1] not in _INSIDE[delay.phase] or delay.phase != "save" and get_ident() != loop.thread:
            return 0
        key = loop.step
        if delay.phase == "save":
            key = top[0]
        elif delay.phase in ("forward", "evaluate", "code"):
            module = args[0]
            if next(iter(module.parameters()), None) is None:
                return 0  # a loss
            if (loop.grad() and module.training) == (delay.phase == "evaluate"):
                return 0
            if delay.phase == "evaluate":
                key = loop.tokens["evaluated"] or loop.tokens["iteration"]
        elif delay.phase == "data":
            root = loop.root()
            if not loop.grad() or root is not None and not root.training:
                return 0
        return delay.due(loop.step, key)

    @quiet
    def note(self, delay, took):
        """Marks the span of a delay."""
        token = _ring.innermost()[0]
        if len(self.marks) >= 64:  # of dropped spans
            self.marks.clear()
        before = self.marks.get(id(token), (token, 0))[1]
        self.marks[id(token)] = token, round(before + took / 1e6, 3)
        delay.made += 1
        delay.spent += took
        if not delay.made & (delay.made - 1):
            self.tell()

    @quiet
    def tell(self):
        """Writes the delays that this process has made so far."""
        made = [{"text": d.text, "delays": d.made, "ms": round(d.spent / 1e6, 3)} for d in self.all if d.made]
        if made:
            _ring.meta("injected", json.dumps(made))
