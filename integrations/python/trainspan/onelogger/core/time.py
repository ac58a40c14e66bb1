"""Times of two clocks, and durations."""

import time
from dataclasses import dataclass

from .exceptions import assert_that

WINDOW = 600  # seconds by which an explicit time may differ from now


@dataclass(frozen=True)
class TracingTimestamp:
    """A time: seconds since the epoch, and seconds of the performance counter."""

    _seconds_since_epoch: float
    _perf_counter_seconds: float

    @property
    def seconds_since_epoch(self):
        return self._seconds_since_epoch

    @property
    def milliseconds_since_epoch(self):
        return int(self._seconds_since_epoch * 1000)

    @property
    def perf_counter_seconds(self):
        return self._perf_counter_seconds

    @classmethod
    def now(cls):
        return cls(time.time(), time.perf_counter())

    @classmethod
    def for_timestamp(cls, timestamp_sec, perf_counter=None, validate_timestamp=True):
        """Returns a time of the wall clock. It must be within ten minutes of now, which finds a
        wrong unit, unless validate_timestamp is False."""
        now = time.time()
        if validate_timestamp:
            assert_that(timestamp_sec <= now + WINDOW, "timestamp is in the future. This is meant to be the time in seconds since epoch.")
            assert_that(timestamp_sec >= now - WINDOW, "timestamp is too old. This is meant to be the time in seconds since epoch.")
        return cls(timestamp_sec, perf_counter or time.perf_counter() - (now - timestamp_sec))

    def to_json(self):
        return {"seconds_since_epoch": self._seconds_since_epoch, "perf_counter_seconds": self._perf_counter_seconds}

    @classmethod
    def from_json(cls, data):
        assert_that(data, "TracingTimestamp data cannot be None.")
        assert_that(
            data.get("seconds_since_epoch") and data.get("perf_counter_seconds"),
            "TracingTimestamp must have seconds_since_epoch and perf_counter_seconds: %s" % (data,),
        )
        return cls(data["seconds_since_epoch"], data["perf_counter_seconds"])


def between(start, end):
    """Returns the seconds from one time to a later one, 0 if it is not later. Sums of doubles
    near today's time are imprecise below a microsecond."""
    return max(round(end.perf_counter_seconds - start.perf_counter_seconds, 6), 0.0)


class Timer:
    """A stopwatch that can be stopped and restarted."""

    def __init__(self):
        self.reset()

    @property
    def running(self):
        return self._start is not None

    def start(self, start_time=None):
        assert_that(self._start is None, "start called when the timer was already running")
        self._start = start_time or TracingTimestamp.now()

    def stop(self, reset=False):
        """Stops, and returns the seconds that it ran since its last reset."""
        assert_that(self._start is not None, "stop called when the timer was not running")
        self._elapsed += time.perf_counter() - self._start.perf_counter_seconds
        self._start, elapsed = None, self._elapsed
        if reset:
            self.reset()
        return elapsed

    def reset(self, start=False):
        self._start, self._elapsed = None, 0.0
        if start:
            self.start()
