"""Which lines of the program the time between two hooks belongs to. A few steps of a run are
looked at, in the hooks themselves: no thread, no signal and nothing that traces."""

import json
import os
import sys
from threading import get_ident

from trainspan import _folder, _ring, quiet

SHORT = 1_000_000  # ns: a gap that takes less has no lines
FIRST, USUAL = 4, 2  # steps of a look; the first one is seen in part only
MOST = 3  # gaps that are written
_CALLS = {"fetch.iter": "next batch", "step.zero_grad": "zero_grad", "forward": "forward", "backward": "backward", "step": "optimizer.step"}


def _place(file, line):
    """A line of a file in short: its name, with its folder where that is not that of the program."""
    folder, name = os.path.split(file)
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if main is None or os.path.abspath(folder) != os.path.dirname(os.path.abspath(main)):
        name = os.path.join(os.path.basename(folder), name)
    return "%s:%d" % (name, line)


def _caller():
    """The innermost line that is neither ours nor PyTorch's."""
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
    """What was seen so far, of the thread that trains."""

    def __init__(self, loop):
        self.loop = loop
        self.reset()

    def reset(self):
        self.left = 0         # steps of this look that are to come
        self.steps = self.ns = 0  # that were seen as a whole, and their time
        self.since = None     # when the step began, None for one that is not seen as a whole
        self.after = None     # the hook that was left last: when, its call, its line
        self.here = None      # the line of the hook that is open
        self.gaps, self.step = {}, {}  # ns by the hooks around them: in all, and of this step
        self.dataset = None   # what batches are read from
        self.next = 0         # the step from which on there is another look

    def due(self, step):
        """Whether the next steps are looked at: seldom, and more seldom as the run goes on."""
        if step < self.next:
            return False
        self.left, self.next = USUAL if self.steps else FIRST, step + step // 32
        self.since = self.after = None
        return True

    @quiet
    def enter(self, name, args):
        """A hook begins."""
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
        """It ends."""
        if get_ident() == self.loop.thread and self.here is not None:
            self.after, self.here = (_ring.clock(), name, self.here), None

    def lost(self):
        """Something that is no code of the program begins: the gap is not looked at."""
        self.after = None

    @quiet
    def ended(self):
        """A step is over. Gives whether there is another one to look at."""
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
        """Writes what is known so far."""
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
    """Where the samples of a loader are read: the method of the class of its data set."""
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
