"""How far a training is, and what its metrics are made of. The rules are those of the
recorder behind the ring; docs/reference/formats.md says where they are not the original's."""

from ...core.time import between


def micros(seconds):
    return round(seconds * 1e6)


class Window:
    """The runs of one kind of span, and their time in whole microseconds: rounding seconds
    would be most of what an iteration costs."""

    __slots__ = ("count", "sum", "least", "most")

    def __init__(self):
        self.count, self.sum, self.least, self.most = 0, 0, None, 0

    def add(self, start, end):
        """Adds the time of a run that was counted when it started."""
        self.take(micros(between(start, end)))

    def take(self, us):
        if self.least is None or us < self.least:
            self.least = us
        if us > self.most:
            self.most = us
        self.sum += us

    # In seconds.

    @property
    def total(self):
        return self.sum / 1e6

    @property
    def min(self):
        return None if self.least is None else self.least / 1e6

    @property
    def max(self):
        return self.most / 1e6

    @property
    def avg(self):
        return self.total / self.count if self.count else 0.0


class Loop:
    """What a training loop starts afresh."""

    def __init__(self):
        self.iterations = Window()
        self.samples = self.flops = 0
        self.tokens = self.throughput = self.throughput_min = self.throughput_max = None
        self.first_end = self.last_end = None  # seconds since the epoch


class Rates:
    """What an iteration counts for."""

    def __init__(self, config, world):
        """config is that of the training, and world gives the number of ranks."""
        self.batch, self.seq, self.flops, self.world = config.global_batch_size, config.seq_length, None, world
        if config.is_log_throughput_enabled:
            self.flops = self.batch * config.flops_per_sample


class State:
    """How far the training is."""

    def __init__(self):
        self.loop, self.loops = Loop(), 0
        self.loop_start = None
        self.first = self.samples_before = 0  # of the loop: iterations and samples of earlier runs
        self.done = self.validated = self.tested = 0  # iterations, earlier runs included: now, and at the last loop of each kind
        self.productive = 0  # microseconds of completed iterations of all loops
        self.flops = None  # of the job
        self.windows = {}  # by the name of the span
        self.saves = 0  # that succeeded
        self.first_save = self.last_save = None
        self.pending = {}  # what is kept if a save succeeds, by its step
        self.best = (0, 0, 0.0, 0.0, None)  # the largest numbers that a success reported

    def window(self, name):
        return self.windows.setdefault(str(name), Window())

    def begin(self, at, first, samples, flops):
        """Begins a loop. flops are those of earlier runs, None where they are not counted."""
        self.loop_start, self.first, self.samples_before = at, first, samples
        self.done = self.validated = self.tested = first
        if flops is not None:
            self.flops, self.loop.flops = flops, 0

    @staticmethod
    def due(done, every):
        """Whether exporters hear of the metrics after so many iterations."""
        return done % every == 0 and done > 1

    def completed(self, us, end, rates):
        """Counts an iteration of so many microseconds that ended at a time of the wall clock.
        False where its throughput is not known for want of time."""
        loop = self.loop
        w = loop.iterations
        if w.least is None or us < w.least:  # take(), written out
            w.least = us
        if us > w.most:
            w.most = us
        w.sum += us
        self.productive += us
        self.done += 1
        loop.samples += rates.batch
        if rates.seq:
            loop.tokens = rates.seq * loop.samples
        loop.last_end = end
        if loop.first_end is None:
            loop.first_end = end
        if rates.flops is None:
            return True
        flops = rates.flops
        self.flops = (self.flops or 0) + flops
        loop.flops += flops
        if loop.iterations.sum <= 0:
            return False
        now = loop.throughput = float(loop.flops) / (loop.iterations.total * 10**12 * rates.world())
        loop.throughput_min = now if loop.throughput_min is None else min(loop.throughput_min, now)
        loop.throughput_max = now if loop.throughput_max is None else max(loop.throughput_max, now)
        return True

    def prepare(self, step, validation):
        """Remembers what the checkpoint of a step holds."""
        if len(self.pending) >= 1024:
            self.pending.pop(next(iter(self.pending)))
        tflops = None if self.flops is None else float(self.flops) / 10**12
        self.pending[step] = (self.done, self.samples_before + self.loop.samples, self.productive / 1e6, validation.total, tflops)

    def saved(self, step, at):
        """Counts a success and gives the productive numbers, which never go down; None
        where no save of that step is known."""
        held = self.pending.pop(step, None)
        if held is None:
            return None
        self.saves, self.last_save = self.saves + 1, at
        self.first_save = self.first_save or at
        self.best = tuple(b if h is None else h if b is None else max(h, b) for h, b in zip(held, self.best))
        return self.best
