"""Measures the device time of a phase with CUDA events that are recorded around it and queried
some steps later. It never waits for the device.

The host records an event, and the event happens when its stream reaches it, which is never
earlier. So the largest difference of the two clocks so far, that of an event on an idle stream,
converts the device's times to the host's clock. Events are read in the order of their
recording, of all phases together, and each stream has a separate lane, so that the spans of a
lane nest or follow each other.

No event is ever destroyed: in a forked process, which cannot use the device, that would end
the process, and after an error of the device PyTorch would print a warning for each.
"""

import ctypes
import functools
import sys
from collections import deque
from threading import RLock

from trainspan import _ring, passing, quiet

PENDING = 2048  # waiting events; beyond, phases are not measured
LANE = 1 << 30  # the number of the device's thread in the trace; other streams than that of the training follow
DRIFT = 5e-5  # the maximum drift of the two clocks: an old difference counts for less


class _Mark:
    """An event of a stream, the host's time of its recording, and its time on the host's clock,
    0 while that is unknown."""

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
    """Returns the device API of a build of PyTorch: torch.cuda or the like, None for a CPU
    build. It does not check whether there is a device: that would be its first use, after
    which forked processes have none."""
    if torch.version.cuda or getattr(torch.version, "hip", None):
        return torch.cuda
    kind = torch.accelerator.current_accelerator()  # raises, or is None, without one
    return kind and Accelerator(torch, kind.type)


def _current(cuda):
    """Returns a function for the current stream of CUDA, None for other devices.
    torch.cuda.current_stream makes an object in each call, and takes three times as long as
    recording an event."""
    torch = sys.modules.get("torch")
    base = getattr(torch, "_C", None)
    stream, device, known = getattr(base, "_cuda_getCurrentStream", None), getattr(base, "_cuda_getDevice", None), {}
    if cuda is not getattr(torch, "cuda", None) or stream is None or device is None:
        return None

    def current():
        key = stream(device())
        found = known.get(key)
        if found is None:
            found = known[key] = cuda.current_stream()
        return found

    return current


class Device:
    """The marks of one process."""

    def __init__(self, cuda):
        self.cuda, self.current = cuda, _current(cuda)
        self.kind = getattr(cuda, "kind", "cuda")
        self.names = {}
        self.told = False  # whether the metadata says that the host only launches
        self.captures = set()  # graphs during capture: then no thread may query an event
        self.events = []  # all of this process, and those of processes that forked it
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.events))  # so that the end of the interpreter keeps them too
        self.reset()

    def forked(self):
        """Resets the state after a fork: the device and the events belong to the parent."""
        self.reset()
        self.free = []

    def reset(self):
        self.free, self.marks, self.spans = list(self.events), deque(), deque()
        self.last = None    # the previous event, and its time since the first one, in ns
        self.latest = 0     # the latest of these times
        self.offset = None  # the time of the first one on the host's clock
        self.streams = {}   # the lane of each, and the time of its last event on the host's clock
        self.lock = RLock()  # for the captures and the operations that depend on them

    def capture(self, graph, begins):
        with self.lock:
            (self.captures.add if begins else self.captures.discard)(graph)

    def idle(self):
        """Returns whether the device must not be queried: it is not in use, which only the
        program may change, or a graph is being captured."""
        return self.captures or not self.cuda.is_initialized() or self.cuda.is_current_stream_capturing()

    def mark(self, stream=0):
        with self.lock:
            if self.idle():
                return None
            if not self.told:
                self.told = True
                _ring.meta("launches", self.kind)
            if self.free:
                event = self.free.pop()
            else:
                event = self.cuda.Event(enable_timing=True)
                self.events.append(event)
            if self.current is None:
                event.record()
            else:
                event.record(self.current())
            mark = _Mark(event, stream, _ring.now())
            self.marks.append(mark)
            return mark

    @quiet
    def begin(self, name, stream=0):
        """Returns the first of two marks, or None if nothing runs on a device."""
        mark = self.mark(stream) if len(self.marks) < PENDING else None
        return mark and (name, mark)

    @quiet
    def begin_wait(self, name):
        """Returns the same for a collective, which the stream of the training or another one
        waits for."""
        if self.cuda.is_initialized():
            return self.begin(name, (self.current or self.cuda.current_stream)().stream_id)

    @quiet
    def end(self, mark, args=None):
        """Returns the second mark."""
        second = self.mark(mark[1].stream)
        if second is not None:
            self.spans.append(mark + (second, args))

    def collect(self):
        """Writes the spans whose events have happened."""
        try:
            with self.lock:
                marks = () if self.idle() else self.marks
                while marks and marks[0].event.query():
                    self.time(marks.popleft())
            while self.spans and self.spans[0][2].at:
                name, start, end, args = self.spans.popleft()
                n = self.names.get(name)
                if n is None:
                    n = self.names[name] = _ring.name(name, "device", "torch")
                lane, lag = LANE + self.streams[end.stream][0], max(start.at - start.passed, 1)
                if end.stream:  # its delay is unrelated to the training
                    args, lag = dict(args or {}, stream=end.stream, background=1), 0
                if start.at:  # otherwise it began before a fork
                    _ring.event(n, start.at, end.at, args, lane, lag)
        except Exception as e:
            passing(e, self.reset)
            self.reset()

    def time(self, mark):
        """Returns the time of the next event, on the host's clock: never before the previous
        event of its stream."""
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
