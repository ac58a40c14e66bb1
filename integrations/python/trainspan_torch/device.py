"""How long the device worked for a phase, from CUDA events that are recorded
around it and asked some steps later. Nothing here waits for the device.

An event is recorded when the host passes by and happens when its stream gets
there, which is never earlier. So the largest difference between the two clocks
that was seen, that of an event which met an idle stream, puts the device's
times on the host's axis. Events are looked at in the order in which they were
recorded, whichever phase they belong to, and each stream has a lane of its own, so
that the spans of a lane nest or follow each other.
"""

import functools
from collections import deque
from threading import RLock

from trainspan import _ring, passing, quiet

PENDING = 2048  # events that wait; beyond, phases go unmeasured
LANE = 1 << 30  # the number of the device's thread in the trace; other streams than that of the training follow
DRIFT = 5e-5  # the most that two clocks drift apart: a difference seen long ago counts for less


class _Mark:
    """An event of a stream, when the host passed by, and when it happened on the host's
    axis, 0 as long as that is not known."""

    __slots__ = "event", "stream", "passed", "at"

    def __init__(self, event, stream, passed):
        self.event, self.stream, self.passed, self.at = event, stream, passed, 0


class Accelerator:
    """A device of another kind, by the names that all kinds have from torch 2.6 on."""

    kind = ""

    def __init__(self, torch, kind):
        module = getattr(torch, kind)
        self.kind = kind
        self.is_initialized, self.current_stream = module.is_initialized, module.current_stream
        self.is_current_stream_capturing = getattr(module, "is_current_stream_capturing", bool)
        self.Event = functools.partial(torch.Event, kind)


@quiet
def of(torch):
    """The device that a build of PyTorch is made for: torch.cuda or the like, None where
    that is only the processor. Whether there is one is not asked: that would be its first
    use, after which forked processes have none."""
    if torch.version.cuda or getattr(torch.version, "hip", None):
        return torch.cuda
    kind = torch.accelerator.current_accelerator()  # raises, or is None, without one
    return kind and Accelerator(torch, kind.type)


class Device:
    """The marks of one process."""

    def __init__(self, cuda):
        self.cuda = cuda
        self.kind = getattr(cuda, "kind", "cuda")
        self.names = {}
        self.told = False  # that what the host does is only asking for it
        self.captures = set()  # graphs that are captured: on no thread may an event be asked then
        self.reset()

    def reset(self):
        """Forgets everything: after a fork the device belongs to the parent."""
        self.free, self.marks, self.spans = [], deque(), deque()
        self.last = None    # the event before, and its time since the first one, in ns
        self.latest = 0     # the latest of such times
        self.offset = None  # the time of the first one on the host's clock
        self.streams = {}   # the lane of each, and the time of its last event on the host's axis
        self.lock = RLock()  # of one look at the captures and what follows from it

    def capture(self, graph, begins):
        with self.lock:
            (self.captures.add if begins else self.captures.discard)(graph)

    def idle(self):
        """Whether nothing may be asked of the device: it is not in use, which only the
        program may change, or a graph is captured."""
        return self.captures or not self.cuda.is_initialized() or self.cuda.is_current_stream_capturing()

    def mark(self, stream=0):
        with self.lock:
            if self.idle():
                return None
            if not self.told:
                self.told = True
                _ring.meta("launches", self.kind)
            event = self.free.pop() if self.free else self.cuda.Event(enable_timing=True)
            event.record()
            mark = _Mark(event, stream, _ring.now())
            self.marks.append(mark)
            return mark

    @quiet
    def begin(self, name, stream=0):
        """The first of two marks, or None where nothing runs on a device."""
        mark = self.mark(stream) if len(self.marks) < PENDING else None
        return mark and (name, mark)

    @quiet
    def begin_wait(self, name):
        """The same of a collective: the stream of the training waits for it, or another one."""
        if self.cuda.is_initialized():
            return self.begin(name, self.cuda.current_stream().stream_id)

    @quiet
    def end(self, mark, args=None):
        """The second one."""
        second = self.mark(mark[1].stream)
        if second is not None:
            self.spans.append(mark + (second, args))

    def collect(self):
        """Writes the spans whose events have happened."""
        try:
            while self.marks:
                with self.lock:
                    if self.idle() or not self.marks[0].event.query():
                        break
                    self.time(self.marks.popleft())
            while self.spans and self.spans[0][2].at:
                name, start, end, args = self.spans.popleft()
                n = self.names.get(name)
                if n is None:
                    n = self.names[name] = _ring.name(name, "device", "torch")
                lane, lag = LANE + self.streams[end.stream][0], max(start.at - start.passed, 1)
                if end.stream:  # how late it is says nothing of the training
                    args, lag = dict(args or {}, stream=end.stream, background=1), 0
                if start.at:  # else it began before a fork
                    _ring.event(n, start.at, end.at, args, lane, lag)
        except Exception as e:
            passing(e, self.reset)
            self.reset()

    def time(self, mark):
        """When the next event happened, on the host's axis: never before the one that its
        stream met before."""
        at = 0  # since the first event
        if self.last is not None:
            before, at = self.last
            at += int(before.elapsed_time(mark.event) * 1e6)
            self.free.append(before)
        self.last = mark.event, at
        offset = mark.passed - at
        if self.offset is not None:
            offset = max(offset, self.offset - int(max(at - self.latest, 0) * DRIFT))
        self.latest, self.offset = max(self.latest, at), offset
        lane, was = self.streams.get(mark.stream) or (len(self.streams) + 1 if mark.stream else 0, 0)
        mark.at = max(at + offset, was)
        self.streams[mark.stream] = lane, mark.at
