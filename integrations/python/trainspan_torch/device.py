"""How long the device worked for a phase, from CUDA events that are recorded
around it and asked some steps later. Nothing here waits for the device.

An event is recorded when the host passes by and happens when the stream gets
there, which is never earlier. So the largest difference between the two clocks
that was seen, that of an event which met an idle stream, puts the device's
times on the host's axis.
"""

from collections import deque
from threading import RLock

from trainspan import _ring, passing, quiet

PENDING = 1024  # pairs of events that wait; beyond, phases go unmeasured
LANE = 1 << 30  # the number of the device's thread in the trace
DRIFT = 5e-5  # the most that two clocks drift apart: a difference seen long ago counts for less


class Device:
    """The marks of one process."""

    def __init__(self, cuda):
        self.cuda = cuda
        self.names = {}
        self.captures = set()  # graphs that are captured: on no thread may an event be asked then
        self.reset()

    def reset(self):
        """Forgets everything: after a fork the device belongs to the parent."""
        self.free, self.pending = [], deque()
        self.last = None    # the event before, and its time since the first one, in ns
        self.offset = None  # the time of the first one on the host's clock
        self.lock = RLock()  # of one look at the captures and what follows from it

    def capture(self, graph, begins):
        with self.lock:
            (self.captures.add if begins else self.captures.discard)(graph)

    def idle(self):
        """Whether nothing may be asked of the device: it is not in use, which only the
        program may change, or a graph is captured."""
        return self.captures or not self.cuda.is_initialized() or self.cuda.is_current_stream_capturing()

    def mark(self):
        with self.lock:
            if self.idle():
                return None
            event = self.free.pop() if self.free else self.cuda.Event(enable_timing=True)
            event.record()
            return event, _ring.now()

    @quiet
    def begin(self, name):
        """The first of two marks, or None where nothing runs on a device."""
        mark = self.mark() if len(self.pending) < PENDING else None
        return mark and (name, mark)

    @quiet
    def begin_wait(self, name):
        """The same of a collective, if the stream of the training waits for it."""
        if self.cuda.is_initialized() and self.cuda.current_stream() == self.cuda.default_stream():
            return self.begin(name)

    @quiet
    def end(self, mark, args=None):
        """The second one."""
        second = self.mark()
        if second is not None:
            self.pending.append(mark + (second, args))

    def collect(self):
        """Writes the spans whose events have happened."""
        try:
            while self.pending:
                with self.lock:
                    if self.idle() or not self.pending[0][2][0].query():
                        return
                    name, start, end, args = self.pending.popleft()
                    begun, done = self.time(start), self.time(end)
                n = self.names.get(name)
                if n is None:
                    n = self.names[name] = _ring.name(name, "device", "torch")
                _ring.event(n, begun, done, args, LANE, max(begun - start[1], 1))
        except Exception as e:
            passing(e, self.reset)
            self.reset()

    def time(self, mark):
        """When an event happened, on the host's axis. It never goes back: spans of a
        stream lie behind each other."""
        event, passed = mark
        at = was = 0  # since the first event
        if self.last is not None:
            before, was = self.last
            at = was + int(before.elapsed_time(event) * 1e6)
            self.free.append(before)
        self.last = event, at
        offset = passed - at
        if self.offset is not None:
            offset = max(offset, self.offset - int(abs(at - was) * DRIFT))
        self.offset = offset
        return at + offset
