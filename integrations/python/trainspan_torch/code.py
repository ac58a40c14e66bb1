"""Finds the lines of the program to which the time between two hooks belongs. It samples a few
steps of a run, in the hooks themselves: without a thread, a signal or tracing."""

import json
import os
import sys
from threading import get_ident

from trainspan import _folder, _ring, quiet

SHORT = 1_000_000  # ns: shorter gaps have no lines
FIRST, USUAL = 4, 2  # steps of a sample; the first one is seen only in part
MOST = 3  # gaps that are written
_CALLS = {"fetch.iter": "next batch", "step.zero_grad": "zero_grad", "forward": "forward", "backward": "backward", "step": "optimizer.step"}


def _place(file, line):
    """Returns a short form of a line of a file: its name, with its folder if that is not the
    program's."""
    folder, name = os.path.split(file)
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if main is None or os.path.abspath(folder) != os.path.dirname(os.path.abspath(main)):
        name = os.path.join(os.path.basename(folder), name)
    return "%s:%d" % (name, line)


def _caller():
    """Returns the innermost line outside of the client and PyTorch."""
    torch = sys.modules.get("torch")
    torch = os.path.dirname(getattr(torch, "__file__", None) or "") + os.sep
    frame, left = sys._getframe(2), 100
    while frame is not None and left:
        file = frame.f_code.co_filename
        if not file.startswith((_folder, torch, "<")):
            return file, frame.f_lineno
        frame, left = frame.f_back, left - 1
    return None


class Code:
    """The samples so far, of the training thread."""

    def __init__(self, loop):
        self.loop = loop
        self.reset()

    def reset(self):
        self.left = 0         # remaining steps of this sample
        self.steps = self.ns = 0  # complete sampled steps, and their time
        self.since = None     # start of the step, None for an incomplete one
        self.after = None     # the last hook: its end, its call, its line
        self.here = None      # the line of the open hook
        self.gaps, self.step = {}, {}  # ns by the hooks around them: in total, and of this step
        self.dataset = None   # the source of batches
        self.next = 0         # the step from which on there is another sample

    def due(self, step):
        """Returns whether the next steps are sampled: rarely, and more rarely as the run
        continues."""
        if step < self.next:
            return False
        self.left, self.next = USUAL if self.steps else FIRST, step + step // 32
        self.since = self.after = None
        return True

    @quiet
    def enter(self, name, args):
        """Called when a hook begins."""
        if get_ident() != self.loop.thread or self.here is not None:
            return
        now, after = _ring.clock(), self.after
        self.here = here = _caller()
        if name == "fetch.iter" and self.dataset is None:
            self.dataset = _dataset(args[0])
        if after is None or here is None or after[2] is None or now - after[0] < SHORT:
            return
        if not _ring.began_since(after[0]):
            key = (after[1], _place(*after[2])), (name, _place(*here))  # now: a program that ends has no __file__
            self.step[key] = self.step.get(key, 0) + now - after[0]

    @quiet
    def leave(self, name):
        """Called when a hook ends."""
        if get_ident() == self.loop.thread and self.here is not None:
            self.after, self.here = (_ring.clock(), name, self.here), None

    def lost(self):
        """Called when other work than the program's code begins: the gap is not recorded."""
        self.after = None

    @quiet
    def ended(self):
        """Called at the end of a step. Returns whether another one follows in the sample."""
        now, step = _ring.clock(), self.step
        if self.since is not None and self.loop.tokens["evaluation"] is None:
            self.steps += 1
            self.ns += now - self.since
            for key, ns in step.items():
                if key in self.gaps or len(self.gaps) < 64:
                    self.gaps[key] = self.gaps.get(key, 0) + ns
        self.step, self.since = {}, now
        self.left -= 1
        if self.left <= 0 and not self.steps & (self.steps - 1):
            self.tell()
        return self.left > 0

    @quiet
    def tell(self):
        """Writes the result so far."""
        if not self.steps:
            return
        gaps = []
        for ((after, a), (before, b)), ns in sorted(self.gaps.items(), key=lambda item: -item[1])[:MOST]:
            gaps.append({"after": _CALLS[after], "from": a, "before": _CALLS[before], "to": b, "ms": round(ns / self.steps / 1e6, 3)})
        if gaps:
            _ring.meta("other_code", json.dumps({"steps": self.steps, "step_ms": round(self.ns / self.steps / 1e6, 3), "gaps": gaps}))
        if self.dataset:
            _ring.meta("dataset", json.dumps(self.dataset))


@quiet
def _dataset(iterator):
    """Returns where the samples of a loader are read: the method of the class of its dataset."""
    data = iterator._dataset
    for _ in range(8):
        if type(data).__module__ != "torch.utils.data.dataset" or "dataset" not in vars(data):
            break
        data = vars(data)["dataset"]  # of a Subset
    for cls in type(data).__mro__:
        for name in ("__getitems__", "__getitem__", "__iter__"):
            code = getattr(vars(cls).get(name), "__code__", None)
            if code is not None and not cls.__module__.startswith("torch."):
                return {"method": "%s.%s" % (cls.__name__, name), "at": _place(code.co_filename, code.co_firstlineno), "workers": int(getattr(iterator, "_num_workers", 0))}
    return {}
