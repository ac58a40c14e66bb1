"""The progress of a training, and the input of its metrics. The recorder behind the ring buffer
applies the same rules; docs/reference/formats.md lists the differences from one-logger."""

from ...core.time import between


def micros(seconds):
    return round(seconds * 1e6)


class Window:
    """The number of runs of one kind of span, and their time in whole microseconds: rounding
    seconds would be most of the cost of an iteration."""

    __slots__ = ("count", "sum", "least", "most")

    def __init__(self):
        self.count, self.sum, self.least, self.most = 0, 0, None, 0

    def add(self, start, end):
        """Adds the time of a run, which was counted when it started."""
        self.take([micros(between(start, end))])

    def take(self, times):
        """Adds times in microseconds; returns their sum."""
        total = sum(times)
        if times:
            least = min(times)
            if self.least is None or least < self.least:
                self.least = least
            self.most = max(self.most, max(times))
            self.sum += total
        return total

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
    """The values that each training loop resets."""

    def __init__(self):
        self.iterations = Window()
        self.samples = self.flops = 0
        self.tokens = self.throughput = self.throughput_min = self.throughput_max = None
        self.first_end = self.last_end = None  # seconds since the epoch


class Rates:
    """The samples, tokens and FLOPs of an iteration."""

    def __init__(self, config, world):
        """config is that of the training; world returns the number of ranks."""
        self.batch, self.seq, self.flops, self.world = config.global_batch_size, config.seq_length, None, world
        if config.is_log_throughput_enabled:
            self.flops = self.batch * config.flops_per_sample


class State:
    """The progress of the training."""

    def __init__(self):
        self.loop, self.loops = Loop(), 0
        self.loop_start = None
        self.first = self.samples_before = 0  # iterations and samples of earlier runs, at the start of the loop
        self.done = self.validated = self.tested = 0  # iterations, including those of earlier runs: now, and at the last loop of each kind
        self.productive = 0  # microseconds of completed iterations of all loops
        self.flops = None  # FLOPs of the job
        self.windows = {}  # windows by the name of the span
        self.saves = 0  # successful saves
        self.first_save = self.last_save = None
        self.pending = {}  # by the step of a save: the values to keep if the save succeeds
        self.best = (0, 0, 0.0, 0.0, None)  # the largest values of successful saves so far

    def window(self, name):
        return self.windows.setdefault(str(name), Window())

    def begin(self, at, first, samples, flops):
        """Begins a loop. flops are those of earlier runs, or None if FLOPs are not counted."""
        self.loop_start, self.first, self.samples_before = at, first, samples
        self.done = self.validated = self.tested = first
        if flops is not None:
            self.flops, self.loop.flops = flops, 0

    @staticmethod
    def due(done, every):
        """Returns whether the metrics are exported after this number of iterations."""
        return done % every == 0 and done > 1

    def completed(self, times, end, rates):
        """Counts the times of iterations, in microseconds. The last one ended at end, in seconds of
        the wall clock, None if that is unknown. Returns False if the total time is zero, so that the
        throughput is unknown."""
        loop = self.loop
        total = loop.iterations.take(times)
        self.productive += total
        loop.samples += rates.batch * len(times)
        if rates.seq:
            loop.tokens = rates.seq * loop.samples
        loop.last_end = end or loop.last_end
        if loop.first_end is None:
            loop.first_end = end
        if rates.flops is None:
            return True
        spent = loop.iterations.sum - total
        for us in times:
            spent += us
            self.flops = (self.flops or 0) + rates.flops
            loop.flops += rates.flops
            if spent > 0:
                now = loop.throughput = float(loop.flops) / (spent / 1e6 * 10**12 * rates.world())
                loop.throughput_min = now if loop.throughput_min is None else min(loop.throughput_min, now)
                loop.throughput_max = now if loop.throughput_max is None else max(loop.throughput_max, now)
        return spent > 0

    def prepare(self, step, validation):
        """Stores the values that belong to the checkpoint of a step."""
        if len(self.pending) >= 1024:
            self.pending.pop(next(iter(self.pending)))
        tflops = None if self.flops is None else float(self.flops) / 10**12
        self.pending[step] = (self.done, self.samples_before + self.loop.samples, self.productive / 1e6, validation.total, tflops)

    def saved(self, step, at):
        """Counts a successful save and returns the productive values, which never decrease, or
        None if no save of that step is known."""
        held = self.pending.pop(step, None)
        if held is None:
            return None
        self.saves, self.last_save = self.saves + 1, at
        self.first_save = self.first_save or at
        self.best = tuple(b if h is None else h if b is None else max(h, b) for h, b in zip(held, self.best))
        return self.best
