"""Measures the device time of a phase with CUDA events that are recorded around it and queried
some steps later. It never waits for the device.

Recording and reading an event costs the host more than ten microseconds. If that takes more than
a hundredth of the time, the events of a block of steps are read at once, and if it still does,
only every second, fourth or eighth block has events, and so on. So ranks that choose differently
have steps in common. A step has all of its times or none.

The host records an event, and the event happens when its stream reaches it, which is never
earlier. So the largest difference of the two clocks so far, that of an event on an idle stream,
converts the device's times to the host's clock. Events are read in the order of their
recording, of all phases together, and each stream has a separate lane, so that the spans of a
lane nest or follow each other.

All events are those of one device: that of the trained module. PyTorch creates a context, of
hundreds of megabytes, on each device of an event, also if the program does not use that device.

No event is ever destroyed: in a forked process, which cannot use the device, that would end
the process, and after an error of the device PyTorch would print a warning for each.
"""

import ctypes
import functools
import sys
from collections import deque
from threading import RLock

from trainspan import _ring, passing, quiet

BLOCK = 8  # steps in a row with times, because those of accumulated gradients differ
MOST = 512  # at least one block of these has times
SHARE = 100  # events take at most this part of the time
PENDING = 2048  # waiting events; beyond, steps are not measured
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
    """Returns three functions of CUDA, None for other devices: for the current stream of a
    device, for the index of the current device, and for whether a device has a context.
    torch.cuda.current_stream makes an object in each call, and takes three times as long as
    recording an event."""
    torch = sys.modules.get("torch")
    base = getattr(torch, "_C", None)
    stream, device, known = getattr(base, "_cuda_getCurrentStream", None), getattr(base, "_cuda_getDevice", None), {}
    if cuda is not getattr(torch, "cuda", None) or stream is None or device is None:
        return None, None, None

    def current(index):
        key = stream(index)
        found = known.get(key)
        if found is None:
            found = known[key] = cuda.current_stream(index)
        return found

    return current, device, getattr(base, "_cuda_hasPrimaryContext", lambda index: True)


class Device:
    """The marks of one process."""

    def __init__(self, cuda, loop):
        self.cuda, self.loop = cuda, loop
        self.current, self.current_index, self.has_context = _current(cuda)
        self.kind = getattr(cuda, "kind", "cuda")
        self.names = {}
        self.told = False  # whether the metadata says that the host only launches
        self.lock = RLock()  # for the captures and the operations that depend on them
        self.captures = set()  # graphs during capture: then no thread may query an event
        self.model, self.of_model = 0, None  # the id of the trained module, and the index of its device
        self.index = None  # that of the events; always None for other devices than CUDA
        self.events = {None: []}  # by index: all of this process, and those of processes that forked it
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.events))  # so that the end of the interpreter keeps them too
        self.reset()

    def forked(self):
        """Resets the state after a fork: the device and the events belong to the parent."""
        self.lock = RLock()  # another thread of the parent may hold it
        self.reset()
        self.free = []

    def reset(self):
        self.free, self.marks, self.spans = list(self.events[self.index]), deque(), deque()
        self.newest, self.goals, self.due = {}, [], 0  # the newest mark of each stream; those until which the first marks are read together
        self.partial = set()  # steps that lack an event
        self.used = False   # the device is initialized
        self.skip = 0       # a step has times if its number has none of these bits
        self.spent = self.since = self.first = 0  # ns of events since a time and a step
        self.loop.rarely = 0  # read after each step; else after steps whose number has none of these bits
        self.last = None    # the previous event, and its time since the first one, in ns
        self.latest = 0     # the latest of these times
        self.offset = None  # the time of the first one on the host's clock
        self.streams = {}   # the lane of each, and the time of its last event on the host's clock

    def capture(self, graph, begins):
        with self.lock:
            (self.captures.add if begins else self.captures.discard)(graph)

    def idle(self):
        """Returns whether the device must not be queried: it is not in use, which only the
        program may change, or a graph is being captured."""
        self.used = self.used or self.cuda.is_initialized()
        return not self.used or self.captures or self.cuda.is_current_stream_capturing()

    def chosen(self):
        """Returns the current stream of the device of the trained module, or else of the current
        device; None if that has no context, which an event would create."""
        loop = self.loop
        if self.model != loop.model:
            root = loop.root()
            if id(root) == loop.model:
                self.model = loop.model
                self.of_model = next((p.device.index for p in root.parameters() if p.device.type == self.kind), None)
        index = self.of_model
        if index is None:
            index = self.current_index()
            if not self.has_context(index):
                return None
        if index != self.index:
            before, self.index = self.index, index
            self.events.setdefault(index, [])
            self.reset()
            self.used = True
            if before is not None:
                self.partial.add(loop.step)
        return self.current(index)

    def mark(self, stream=0):
        with self.lock:
            if self.idle():
                if self.used:
                    self.partial.add(self.loop.step)
                return None
            if not self.told:
                self.told = True
                _ring.meta("launches", self.kind)
            current = None
            if self.current is not None:
                current = self.chosen()
                if current is None:
                    return self.partial.add(self.loop.step)
            if not self.free:
                self.free.append(self.cuda.Event(enable_timing=True))
                self.events[self.index].append(self.free[-1])
            event = self.free[-1]
            if current is None:
                event.record()
                mark = _Mark(event, stream, _ring.now())
            else:
                event.record(current)
                mark = self.newest[id(current)] = _Mark(event, stream, _ring.now())
            self.free.pop()  # an event whose recording fails is used again
            self.marks.append(mark)
            return mark

    @quiet
    def begin(self, name, stream=0):
        """Returns the first of two marks and its step, or None if nothing runs on a device.
        Callers check skip."""
        before = _ring.clock()
        try:
            if len(self.marks) >= PENDING:
                self.read()
            if len(self.marks) < PENDING:
                mark = self.mark(stream)
            else:
                mark = self.partial.add(self.loop.step)
        finally:
            self.spent += _ring.clock() - before
        return mark and (name, self.loop.step, mark)

    @quiet
    def begin_wait(self, name):
        """Returns the same for a collective, which the stream of the training or another one
        waits for."""
        if self.cuda.is_initialized():
            with self.lock:
                current = self.cuda.current_stream() if self.current is None else self.chosen()
            return current and self.begin(name, current.stream_id)

    @quiet
    def end(self, mark, args=None):
        """Adds the second mark."""
        before = _ring.clock()
        try:
            second = self.mark(mark[2].stream)
            if second is not None:
                self.spans.append(mark + (second, args))
        finally:
            self.spent += _ring.clock() - before

    def read(self):
        """Sets the times of marks whose events have happened. Of the marks of a stream only the
        newest is queried, which happens last. A query may create a context on the current
        device."""
        with self.lock:
            if self.idle():
                return
            if self.index is None or self.index == self.current_index():
                self.query()
            else:
                with self.cuda.device(self.index):
                    self.query()

    def query(self):
        """Queries the events for read."""
        marks, goals = self.marks, self.goals
        while goals or marks and self.newest:
            if not goals:
                goals.extend(self.newest.values())
                self.newest, self.due = {}, len(marks)
            while goals and goals[-1].event.query():
                goals.pop()
            if goals:
                break
            for _ in range(self.due):
                self.time(marks.popleft())
        if self.current is None or not self.loop.rarely:
            while marks and marks[0].event.query():
                self.time(marks.popleft())
                self.due -= 1
            if self.due <= 0:
                goals.clear()

    def choose(self, now):
        """Chooses after a block with events when they are read, and which block is the next one:
        in twice the distance if events took too long, closer if they took less than a quarter."""
        step, skip = self.loop.step, self.skip
        steps = step - self.first
        if step % BLOCK or steps < BLOCK or step - 1 & skip:
            return
        if self.since:
            rarely, waiting = self.loop.rarely, len(self.marks)
            share = self.spent * SHARE * steps / ((skip + BLOCK) * (now - self.since))
            if share > 1:
                if not rarely and 2 * BLOCK * waiting <= PENDING:
                    self.loop.rarely = BLOCK - 1
                elif skip < (MOST - 1) * BLOCK:
                    self.skip = 2 * skip + BLOCK
            while share < 0.25 and self.skip:
                self.skip = self.skip // 2 & -BLOCK
                share *= 2
            if 4 * waiting > PENDING or share < 0.25:
                self.loop.rarely = 0
            if (self.skip, self.loop.rarely) != (skip, rarely):
                _ring.meta("device_steps", "%d of %d" % (BLOCK, self.skip + BLOCK))
        self.since, self.first, self.spent = now, step, 0

    def collect(self):
        """Writes the spans whose events have happened, at the end of a step."""
        try:
            before = _ring.clock()
            self.read()
            while self.spans and self.spans[0][3].at:
                name, step, start, end, args = self.spans.popleft()
                if step in self.partial:
                    continue
                n = self.names.get(name)
                if n is None:
                    n = self.names[name] = _ring.name(name, "device", "torch")
                lane, lag = LANE + self.streams[end.stream][0], max(start.at - start.passed, 1)
                if end.stream:  # its delay is unrelated to the training
                    args, lag = dict(args or {}, stream=end.stream, background=1), 0
                if start.at:  # otherwise it began before a fork
                    _ring.event(n, start.at, end.at, args, lane, lag)
            if not self.spans:
                self.partial.clear()
            now = _ring.clock()
            self.spent += now - before
            self.choose(now)
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
