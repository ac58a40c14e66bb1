"""The recorder of a training: what the callbacks call."""

import os
import socket
from functools import wraps

from .... import _ring
from ... import _guard, _wire
from ...core import time as moments
from ...core.event import ErrorEvent, Event
from ...core.exceptions import OneLoggerError, assert_that
from ...core.span import Span, StandardSpanAttributeName, StandardSpanName
from ...core.time import TracingTimestamp, between
from ...recorder.default_recorder import DefaultRecorder
from . import attributes as sets
from ._state import Loop, Rates, State, micros
from .checkpoint import CheckPointStrategy
from .events import StandardTrainingJobEventName as events
from .spans import StandardTrainingJobSpanName as names

VERSION = "2.3.1"  # of the API
STANDARD = frozenset(names) | frozenset(StandardSpanName)
TIMED = frozenset((names.TRAINING_SINGLE_ITERATION, names.VALIDATION_SINGLE_ITERATION, names.CHECKPOINT_LOAD,
                   names.CHECKPOINT_SAVE_SYNC, names.CHECKPOINT_SAVE_ASYNC))  # fmt: skip
UNSET = "Training telemetry config must be set before the start of training. See TrainingTelemetryProvider.set_training_telemetry_config."
FORCED = (
    "Timer for span %s was automatically stopped because the span is being stopped. This may indicate that the corresponding "
    "on_xxx_end method was not called correctly. If the program exited properly, please double-check your on_xxx_end callback. "
    "If the program exited abnormally (e.g., due to an exception), this is expected."
)


_call, _end = _ring.start_call, _ring.end  # type: ignore[attr-defined]
LATER = 500  # most iterations of the fast path that are counted together


def _now():
    """Returns nanoseconds of the performance counter, which is also the clock of the ring buffer."""
    return round(moments.time.perf_counter() * 1e9)


class Iteration(Span):
    """The span of a training iteration. It stores only times; its other values are created at
    their first use."""

    __slots__ = ("_began",)  # nanoseconds of the performance counter
    __init__ = object.__init__  # type: ignore[assignment] # quick_start sets what is known
    _name, _ref = names.TRAINING_SINGLE_ITERATION, str(names.TRAINING_SINGLE_ITERATION)

    def _known(self):
        if self._running:
            self._hear.__self__._touched = True  # from now on the slow path must end the span
        return super()._known()

    def _start(self):
        return self._began / 1e9

    def _lasted(self):
        if self._ended is None:
            return super()._lasted()
        return (max(self._ended - self._began, 0) + 500) // 10**6


def _told(f):
    """Decorates a callback: after f the call is written to the ring buffer, if f raised with the
    line of the program that called it."""

    @wraps(f)
    def call(self, *args, **kwargs):
        with self._lock:
            told, self._telling = self._telling, {}
            try:
                return f(self, *args, **kwargs)
            except Exception as e:
                self._telling["line"], e._forwarded = _guard.line(), True
                raise
            finally:
                what, self._telling = self._telling, told
                if what.pop("told", True):
                    self._tell(f.__name__.replace("training_loop", "train"), what)

    return call


class TrainingRecorder(DefaultRecorder):
    """Records the spans of a training and computes its metrics."""

    def __init__(self, config, exporters, export_customization_mode, span_name_filter):
        super().__init__(exporters, export_customization_mode, span_name_filter)
        self._config, self._progress, self._telling, self._said = config, State(), {}, {}
        self._iteration, self._touched, self._attributed, self._rates = None, False, False, None
        self._times, self._next = [], 0  # nanoseconds that _progress lacks, and the iteration after which it gets them

    # Spans that the program starts itself. Only one span with a standard name may be open at a
    # time, and only callbacks may start spans with a window.

    def start(self, span_name, span_attributes=None, start_event_attributes=None, start_time=None, parent_span=None):
        if span_name in STANDARD:
            self._free(span_name)
            assert_that(span_name not in TIMED, "Timer for span %s is not active." % span_name)
        return super().start(span_name, span_attributes, start_event_attributes, start_time, parent_span)

    def stop(self, span, stop_event_attributes=None, stop_time=None):
        super().stop(span, stop_event_attributes, stop_time)

    def event(self, span, event=None):
        return super().event(span, event)

    def _stop_own(self, span, stop_attributes, at):
        self._force(span, at)
        super()._stop_own(span, stop_attributes, at)

    def end(self):
        if _guard.plain is self:
            _guard.plain = None
        super().end()

    def _over(self, span):
        self._force(span, None)
        super()._over(span)

    def _force(self, span, at):
        """Counts a span with a window that its callback did not stop, and records an error on it."""
        if span.name in TIMED and id(span) in self._open:
            self._state.window(span.name).add(span.start_event.timestamp, at or TracingTimestamp.now())
            self._event(span, ErrorEvent.create(FORCED % span.name), "export_error")

    def _free(self, name):
        n = len(self.get_active_spans_by_name(name))
        if n:
            raise OneLoggerError(
                "Cannot start span %s while %d span(s) with the same name is already active. Please ensure the callback is called correctly."
                % (name, n)
            )

    def _the(self, name):
        """Returns the open span of a standard name."""
        spans = self.get_active_spans_by_name(name)
        assert_that(len(spans) == 1, "Expected to have one and only one span named %s but found %d." % (name, len(spans)))
        return spans[0]

    def _training(self):
        if self._config.telemetry_config is None:
            raise OneLoggerError(UNSET)
        return self._config.telemetry_config

    def _tell(self, callback, what):
        """Writes a callback to the ring buffer."""
        self._values()
        _wire.call(callback, **what)

    def _values(self):
        """Writes new results of the configuration's functions to the ring buffer."""
        for part, config in (("", self._config), ("telemetry_config.", self._config.telemetry_config)):
            seen = config.seen() if hasattr(config, "seen") else {}
            fresh = {part + k: _wire.value(v) for k, v in seen.items() if self._said.get(part + k, self) != v}
            if fresh:
                self._said.update({part + k: v for k, v in seen.items()})
                _wire.call("values", **fresh)

    def _open_phase(self, key, name, at, attributes=None, own=None):
        """Starts the span of a callback."""
        if at is not None:
            self._telling["start_time_msec"] = _wire.milliseconds(at)
        self._free(name)
        span = self._begin(name, attributes, None, at, None, str(name))
        _wire.opened(span, _wire.name(key), at, own)
        return span

    def _close_phase(self, span, at):
        """Stops the span of a callback."""
        if at is not None:
            self._telling["finish_time_msec"] = _wire.milliseconds(at)
        self._telling.update(_wire.failure(span._failed))
        self._end(span, None, at)
        _wire.ended(span, at)

    def _note(self, span, name, attributes, at=None):
        self._event(span, Event.create(name, attributes, at))

    # The application.

    @_told
    def on_app_start(self, start_time):
        span = self._open_phase("app", StandardSpanName.APPLICATION, start_time)
        config = self._config
        self._note(span, events.ONE_LOGGER_INITIALIZATION, sets.OneLoggerInitializationAttributes.create(
            world_size=config.world_size, one_logger_training_telemetry_version=VERSION, enable_for_current_rank=config.enable_for_current_rank,
            session_tag=config.session_tag, is_baseline_run=config.is_baseline_run,
            summary_data_schema_version=config.summary_data_schema_version, node_name=socket.gethostname(),
            rank=int(os.environ.get("RANK") or 0), custom_metadata=config.custom_metadata,
        ), span.start_event.timestamp)  # fmt: skip
        if config.telemetry_config:
            self._configured(span, config.telemetry_config)
        return span

    @_told
    def on_app_end(self, stop_time):
        span = self._the(StandardSpanName.APPLICATION)
        self._close_phase(span, stop_time)
        self._telling["told"] = False
        self._tell("on_app_end", {k: v for k, v in self._telling.items() if k != "told"})
        self.end()

    def _configured(self, span, config):
        """Records the configuration of the training as an event of the application's span."""
        if config.is_log_throughput_enabled:
            self._state.flops = 0
        self._note(span, events.UPDATE_TRAINING_TELEMETRY_CONFIG, sets.TrainingTelemetryAttributes.create(
            checkpoint_strategy=config.save_checkpoint_strategy, custom_metadata=config.custom_metadata,
            log_every_n_train_iterations=config.log_every_n_train_iterations,
            **{name: getattr(config, name) for name in (
                "perf_tag", "global_batch_size", "micro_batch_size", "seq_length", "flops_per_sample", "train_iterations_target",
                "train_samples_target", "is_train_iterations_enabled", "is_validation_iterations_enabled", "is_test_iterations_enabled",
                "is_save_checkpoint_enabled", "is_log_throughput_enabled")}
        ))  # fmt: skip

    def late_config(self, config):
        """Records a configuration that was set after on_app_start."""
        found = self.get_active_spans_by_name(StandardSpanName.APPLICATION)
        assert_that(found, "Cannot update training metrics: Please call on_app_start() before calling this method.")
        self._configured(found[0], config)

    # The training loop.

    @_told
    def on_training_loop_start(
        self, train_iterations_start, train_samples_start, train_iterations_target=None, train_samples_target=None, train_tokens_target=None,
        start_time=None,
    ):  # fmt: skip
        self._telling.update(
            train_iterations_start=train_iterations_start, train_samples_start=train_samples_start,
            train_iterations_target_or_fn=train_iterations_target, train_samples_target_or_fn=train_samples_target,
        )  # fmt: skip
        for field, value in (("train_iterations_start", train_iterations_start), ("train_samples_start", train_samples_start)):
            assert_that(value >= 0, "Invalid value for %s in TrainingLoopAttributes object: %s" % (field, value))
        config, state = self._training(), self._state
        again = bool(self.get_active_spans_by_name(names.TRAINING_LOOP))
        if state.loops and not again:
            state.loop = Loop()
        flops = config.global_batch_size * config.flops_per_sample * train_iterations_start if config.is_log_throughput_enabled else None
        state.begin(start_time or TracingTimestamp.now(), train_iterations_start, train_samples_start, flops)
        span = self._open_phase("train", names.TRAINING_LOOP, start_time, sets.TrainingLoopAttributes.create(
            train_iterations_start, train_samples_start, train_tokens_target, state.flops, train_iterations_target, train_samples_target,
        ), {"train_iterations_start": train_iterations_start})  # fmt: skip
        state.loops += 1
        return span

    @_told
    def on_training_loop_end(self, stop_time):
        self._close_phase(self._the(names.TRAINING_LOOP), stop_time)

    @_told
    def on_training_single_iteration_start(self, start_time):
        _ring.position(None, self._state.done)
        span = self._timed("training_single_iteration", names.TRAINING_SINGLE_ITERATION, start_time, self._state.loop.iterations)
        self._iteration, self._touched = span, self._rates is not None  # its start is an event
        return span

    @_told
    def on_training_single_iteration_end(self, stop_time):
        config, state = self._training(), self._state
        span = self._running(names.TRAINING_SINGLE_ITERATION)
        if span._failed:
            state.loop.iterations.count -= 1
            return self._done(span, stop_time)
        start, at = span.start_event.timestamp, stop_time or TracingTimestamp.now()
        try:
            state.done += 1
            timed = state.completed([micros(between(start, at))], at.seconds_since_epoch, Rates(config, lambda: self._config.world_size))
            if not timed and at.seconds_since_epoch >= start.seconds_since_epoch:
                raise OneLoggerError("train_iterations_time_total must be greater than 0")
            every = config.log_every_n_train_iterations
            if state.due(state.done, every):
                self._update(self._the(names.TRAINING_LOOP), every)
        finally:
            self._done(span, stop_time)

    def _update(self, span, every):
        """Adds the current metrics of the training to the span of the loop."""
        state, loop = self._state, self._state.loop
        w = loop.iterations
        self._event(span, Event.deferred(events.TRAINING_METRICS_UPDATE, sets.TrainingMetricsUpdateAttributes, {
            "train_iterations_start": state.first, "current_iteration": state.done - 1, "num_iterations": w.count,
            "train_samples_start": state.samples_before, "num_train_samples": loop.samples, "interval": every, "avg_iteration_time_sec": w.avg,
            "min_iteration_time_sec": w.min, "max_iteration_time_sec": w.max, "total_iteration_time_sec": w.total, "train_tokens": loop.tokens,
            "completed_floating_point_operations_overall": state.flops, "total_flops": loop.flops, "train_throughput_per_gpu": loop.throughput,
            "train_throughput_per_gpu_max": loop.throughput_max, "train_throughput_per_gpu_min": loop.throughput_min,
            "first_logged_train_iterations_finish_timestamp_sec": loop.first_end,
            "last_logged_train_iterations_finish_timestamp_sec": loop.last_end,
        }))  # fmt: skip

    def _timed(self, key, name, at, window, attributes=None, own=None):
        """Starts a span with a window."""
        assert_that(not self.get_active_spans_by_name(name), "Cannot start timer since it is already active")
        span = self._open_phase(key, name, at, attributes, own)
        window.count += 1
        return span

    def _running(self, name):
        """Returns the open span of a name with a window."""
        spans = self.get_active_spans_by_name(name)
        assert_that(spans, "Cannot stop timer since it is not active")
        return spans[0]

    def _done(self, span, at):
        """Stops the span of an iteration. The callback is not written: the end of the span in the
        trace implies it."""
        self._values()
        self._close_phase(span, at)
        self._telling["told"] = False

    # The fast path of iterations that no exporter gets, because there is no exporter or the
    # filter excludes them: it only writes to the ring buffer and stores times, which _progress
    # gets when the metrics are due or the slow path needs it. All other iterations (not plain)
    # use the slow path.

    def find_plain(self):
        """Determines whether iterations are plain, and sets _guard.plain for the callbacks."""
        configs = (self._config, self._config.telemetry_config)
        hidden = not self._exporters or not self._shown(names.TRAINING_SINGLE_ITERATION)
        plain = hidden and all(hasattr(c, "functions") and not c.functions() for c in configs)
        if plain:
            self._rates = Rates(self._config.telemetry_config, lambda: self._config.world_size) if self._exporters else None
            self._heard, self._touched = self._set, self._rates is not None and self._iteration is not None
            self._every = self._config.telemetry_config.log_every_n_train_iterations
            self._ids = _wire.name("training_single_iteration"), _ring.name("on_training_single_iteration_start", "call") | _ring.CALL
        _guard.plain = self if plain else None

    def quick_start(self):
        """Starts an iteration and returns its span, or None if the slow path must start it."""
        if self._iteration is not None:
            return None
        span, state, latest = Iteration(), self._progress, self._latest
        n, callback = self._ids
        span._token = token = _call(n, callback, state.done)
        span._began = _now() if token is None else token[0]
        span._parent_span, span._hear = latest.get(), self._heard
        span._listed = False
        self._iteration = span
        latest.set(span)
        return span

    def quick_end(self):
        """Ends the iteration. Returns False if the slow path must end it."""
        span, state, latest = self._iteration, self._progress, self._latest
        if span is None or self._touched or latest.get() is not span:
            self._touched = False
            return False
        done, rates, loops = state.done + 1, self._rates, None
        count = done >= self._next
        if count:
            if state.due(done, self._every):
                loops = self.get_active_spans_by_name(names.TRAINING_LOOP)
                if len(loops) != 1:
                    return False
            if rates is not None and not state.loop.iterations.sum and _now() - span._began <= 500:
                return False  # without any time there is no throughput
        if self._attributed:
            self._attributed = False
            end = _wire.ended(span) or _now()
            span._ended = end
            span._updated.add(StandardSpanAttributeName.DURATION_MSEC, span._lasted())
        else:
            span._ended = end = _end(span._token) or _now()
        span._running, span._hear = False, None
        self._iteration = None
        if span._listed:
            self._unlist(span)
        above = span._parent_span
        latest.set(above if above is None or above._running else None)
        state.done = done
        if rates is not None:
            self._times.append(end - span._began)
        if count:
            self._next = min(done - done % self._every + self._every, done + LATER)
            if rates is not None:
                self._count(moments.time.time())
                if not state.loop.iterations.sum:
                    self._next = 0
                if loops:
                    self._update(loops[0], self._every)
        return True

    def _count(self, end):
        """Adds the times of the fast path to the progress. The last iteration ended at end, in
        seconds of the wall clock, None if that is unknown."""
        with self._lock:
            times = self._times[:]
            del self._times[: len(times)]
            self._progress.loop.iterations.count += len(times)
            self._progress.completed([(ns + 500) // 1000 for ns in times], end, self._rates)

    # An iteration of the fast path is listed among the open spans, and its start is counted, when
    # one of these is needed. Another thread may need it while the iteration ends.

    def _list(self):
        span = self._iteration
        if span is not None and not span._listed:
            with self._lock:
                if not span._listed:
                    self._spans[id(span)] = span
                    self._progress.loop.iterations.count += 1
                    span._listed = True
                if self._iteration is not span:
                    self._unlist(span)

    def _unlist(self, span):
        with self._lock:
            if self._spans.pop(id(span), None) is not None:
                self._progress.loop.iterations.count -= 1  # _count adds one

    @property
    def _state(self):
        """Returns the progress of the training, for the slow path."""
        self._next = 0
        self._list()
        if self._times:
            self._count(None)
        return self._progress

    @property
    def _open(self):
        """Returns the open spans by their id()."""
        self._list()
        return self._spans

    def _set(self, span, attributes):
        self._attributed = self._attributed or span is self._iteration
        super()._set(span, attributes)

    def _event(self, span, event, method="export_event"):
        self._touched = self._touched or span is self._iteration
        super()._event(span, event, method)

    def _end(self, span, stop_attributes=None, at=None):
        if span is self._iteration:
            self._list()
            self._iteration, self._touched, self._attributed = None, False, False
        super()._end(span, stop_attributes, at)

    # Validation and testing.

    @_told
    def on_validation_end(self, stop_time):
        span, state = self._the(names.VALIDATION_LOOP), self._state
        w = state.window(names.VALIDATION_SINGLE_ITERATION)
        times = {} if w.min is None else {
            "avg_iteration_time_sec": w.avg, "min_iteration_time_sec": w.min, "max_iteration_time_sec": w.max, "total_iteration_time_sec": w.total,
        }  # fmt: skip
        self._note(span, events.VALIDATION_METRICS_UPDATE, sets.ValidationMetricsUpdateAttributes.create(
            max(0, state.done - 1), state.done - state.validated, **times))  # fmt: skip
        state.validated = state.done
        self._close_phase(span, stop_time)

    @_told
    def on_testing_end(self, stop_time):
        span, state = self._the(names.TESTING_LOOP), self._state
        self._note(span, events.TESTING_METRICS_UPDATE, sets.TestingMetricsUpdateAttributes.create(
            max(0, state.done - 1), state.done - state.tested))  # fmt: skip
        state.tested = state.done
        self._close_phase(span, stop_time)

    # Checkpoints.

    def _save_name(self):
        wait = self._training().save_checkpoint_strategy == CheckPointStrategy.SYNC
        return names.CHECKPOINT_SAVE_SYNC if wait else names.CHECKPOINT_SAVE_ASYNC

    @_told
    def on_save_checkpoint_start(self, current_iteration, start_time):
        self._telling["global_step"] = current_iteration
        config, name, attributes = self._training(), self._save_name(), None
        window = self._state.window(name)
        if config.is_save_checkpoint_enabled:
            self._state.prepare(current_iteration, self._state.window(names.VALIDATION_SINGLE_ITERATION))
            attributes = sets.CheckpointSaveSpanAttributes.create(config.save_checkpoint_strategy, current_iteration, window.count + 1)
        key = "save_checkpoint" if name is names.CHECKPOINT_SAVE_SYNC else "save_checkpoint_async"
        return self._timed(key, name, start_time, window, attributes, {"current_iteration": current_iteration})

    @_told
    def on_save_checkpoint_success(self, current_iteration, timestamp):
        self._telling["global_step"] = current_iteration
        if timestamp is not None:
            self._telling["time_msec"] = _wire.milliseconds(timestamp)
        config, state = self._training(), self._state
        wait = config.save_checkpoint_strategy == CheckPointStrategy.SYNC
        if not config.is_save_checkpoint_enabled:
            return
        span = self._the(names.CHECKPOINT_SAVE_SYNC if wait else StandardSpanName.APPLICATION)
        at = timestamp or TracingTimestamp.now()
        best = state.saved(current_iteration, at)
        if best is None:
            self._data_error("save_checkpoint_success for step %s: the checkpoint is unknown or was already reported" % current_iteration)
            return
        self._note(span, events.SAVE_CHECKPOINT_SUCCESS, sets.SaveCheckpointSuccessEventAttributes.create(
            config.save_checkpoint_strategy, current_iteration, state.first_save.seconds_since_epoch, state.last_save.seconds_since_epoch,
            state.saves, *best, training_start_timestamp_sec=state.loop_start and state.loop_start.seconds_since_epoch,
        ), at)  # fmt: skip

    @_told
    def on_save_checkpoint_end(self, stop_time):
        span = self._the(self._save_name())
        self._state.window(span.name).add(span.start_event.timestamp, stop_time or TracingTimestamp.now())
        if self._training().is_save_checkpoint_enabled:
            self._event(span, self.create_sync_checkpoint_metrics_event(span.name))
        self._close_phase(span, stop_time)

    def create_sync_checkpoint_metrics_event(self, span_name):
        w = self._state.window(span_name)
        return Event.create(
            events.SYNC_CHECKPOINT_METRICS_UPDATE, sets.SyncCheckpointMetricsUpdateAttributes.create(w.total, w.min or 0.0, w.max)
        )


# The callbacks that only start or stop a span: for each key the name of the span, and s
# (start), e (end) or both.
PLAIN = {
    "distributed_init": (names.DIST_INIT, "se"), "model_init": (names.MODEL_INIT, "se"), "dataloader_init": (names.DATA_LOADER_INIT, "se"),
    "optimizer_init": (names.OPTIMIZER_INIT, "se"), "load_checkpoint": (names.CHECKPOINT_LOAD, "se"),
    "validation": (names.VALIDATION_LOOP, "s"), "testing": (names.TESTING_LOOP, "s"),
    "validation_single_iteration": (names.VALIDATION_SINGLE_ITERATION, "se"),
}  # fmt: skip


def _pair(key, name):
    def start(self, start_time):
        if name in TIMED:
            return self._timed(key, name, start_time, self._state.window(name))
        return self._open_phase(key, name, start_time)

    def end(self, stop_time):
        span = self._running(name) if name in TIMED else self._the(name)
        if name in TIMED:
            window = self._state.window(name)
            if span._failed:
                window.count -= 1
            else:
                window.add(span.start_event.timestamp, stop_time or TracingTimestamp.now())
        self._close_phase(span, stop_time)

    start.__name__, end.__name__ = "on_%s_start" % key, "on_%s_end" % key
    return start, end


for _key, (_name, _which) in PLAIN.items():
    for _f, _letter in zip(_pair(_key, _name), "se"):
        if _letter in _which:
            setattr(TrainingRecorder, _f.__name__, _told(_f))
