"""one-logger's callbacks and context managers by their names. A program that
was written for nv-one-logger changes its import lines:

    from trainspan.onelogger import OneLoggerConfig, TrainingTelemetryConfig, TrainingTelemetryProvider
    from trainspan.onelogger import on_app_start, on_train_start, training_iteration

Each call is recorded with its time and replayed on the other side of the ring,
where spans, metrics and checkpoint productivity are computed. A call at the
wrong time raises nothing here; it is reported there.
"""

import contextlib

from . import _ring, plain, quiet

# The span of each pair of callbacks: its name in traces, category and name.
_SPANS = {
    "app": ("ai_root", "ai_root"), "distributed_init": ("comm", "comm.init"), "model_init": ("compute", "compute.init"),
    "dataloader_init": ("dataloader", "dataloader.init"), "optimizer_init": ("compute", "step.init"),
    "load_checkpoint": ("checkpoint", "restart"), "train": ("pipeline", "train"),
    "training_single_iteration": ("pipeline", "train.iteration"), "validation": ("pipeline", "evaluate"),
    "validation_single_iteration": ("pipeline", "evaluate.iteration"), "testing": ("pipeline", "test"),
    "save_checkpoint": ("checkpoint", "capture"),
}


class Span:
    """What callbacks and contexts give: its methods do nothing."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


_span = Span()
_open = {}  # tokens of open spans by their key in _SPANS
_state = {"iteration": 0, "asynchronous": False}


def _name(key):
    cat, name = _SPANS[key]
    if key == "save_checkpoint" and _state["asynchronous"]:
        name = "capture.async"
    return _ring.name(name, cat, _ring.CALLED)


def _value(value):
    return value() if callable(value) else value


def _values(given):
    """Configuration as plain values: its functions are called once, here."""
    if isinstance(given, _Config):
        given = given.values
    if isinstance(given, dict):
        return {str(k): _values(v) for k, v in given.items()}
    given = _value(given)
    if isinstance(given, (list, tuple)):
        return [_values(v) for v in given]
    return None if given is None else getattr(given, "value", plain(given))


@quiet
def _begin(key, args, msec, step=None, own=None):
    args = dict(args, start_time_msec=msec) if msec else args
    _ring.call("on_%s_start" % key, args)
    if key in _open:
        return _span
    if step is not None:
        _ring.position(None, step)
    token = _ring.start(_name(key), int(msec * 1e6) if msec else None, own)
    if token is not None:
        _open[key] = token
    return _span


@quiet
def _end(key, args, msec):
    args = dict(args, finish_time_msec=msec) if msec else args
    _ring.end(_open.pop(key, None), None, None, int(msec * 1e6) if msec else None)
    _ring.call("on_%s_end" % key, args)


def _pair(key):
    def start(start_time_msec=None):
        return _begin(key, {}, start_time_msec)

    def end(finish_time_msec=None):
        _end(key, {}, finish_time_msec)

    start.__name__, end.__name__ = "on_%s_start" % key, "on_%s_end" % key
    return start, end


for _key in _SPANS:
    globals()["on_%s_start" % _key], globals()["on_%s_end" % _key] = _pair(_key)


@quiet
def on_train_start(train_iterations_start=0, train_samples_start=None, train_iterations_target_or_fn=None, train_samples_target_or_fn=None,
                   start_time_msec=None):  # fmt: skip
    _state["iteration"] = int(train_iterations_start)
    args = {"train_iterations_start": train_iterations_start, "train_samples_start": train_samples_start,
            "train_iterations_target_or_fn": _value(train_iterations_target_or_fn),
            "train_samples_target_or_fn": _value(train_samples_target_or_fn)}  # fmt: skip
    own = {"train_iterations_start": _state["iteration"]}
    return _begin("train", {k: v for k, v in args.items() if v is not None}, start_time_msec, None, own)


def on_training_single_iteration_start(start_time_msec=None):
    return _begin("training_single_iteration", {}, start_time_msec, _state["iteration"])


def on_training_single_iteration_end(finish_time_msec=None):
    _end("training_single_iteration", {}, finish_time_msec)
    _state["iteration"] += 1


def on_save_checkpoint_start(global_step, start_time_msec=None):
    return _begin("save_checkpoint", {"global_step": global_step}, start_time_msec, None, {"current_iteration": global_step})


def on_save_checkpoint_success(global_step, time_msec=None):
    _ring.call("on_save_checkpoint_success", {"global_step": global_step, "time_msec": time_msec or 0})


def on_save_checkpoint_end(finish_time_msec=None):
    _end("save_checkpoint", {}, finish_time_msec)


# Context managers, which are decorators too.


def _context(key):
    @contextlib.contextmanager
    def context(*args, **kwargs):
        globals()["on_%s_start" % key](*args, **kwargs)
        try:
            yield _span
        finally:
            globals()["on_%s_end" % key]()

    return context


application, model_init, dataloader_init, optimizer_init, training_loop, training_iteration, validation_loop, validation_iteration = map(
    _context, "app model_init dataloader_init optimizer_init train training_single_iteration validation validation_single_iteration".split()
)
testing_loop, checkpoint_load = map(_context, ("testing", "load_checkpoint"))


@contextlib.contextmanager
def checkpoint_save(global_step):
    on_save_checkpoint_start(global_step=global_step)
    try:
        yield _span
        if not _state["asynchronous"]:
            on_save_checkpoint_success(global_step=global_step)
    finally:
        on_save_checkpoint_end()


@contextlib.contextmanager
def timed_span(name, span_attributes=None, start_event_attributes=None):
    token = quiet(lambda: _ring.start(_ring.name(str(name), "telemetry", "one_logger")))()
    try:
        yield _span
    finally:
        _ring.end(token, quiet(lambda: {str(k): _values(v) for k, v in dict(span_attributes).items()} or None)())


# Configuration.


class _Config:
    def __init__(self, **values):
        self.values = values

    def __getattr__(self, key):
        try:
            return _value(self.__dict__["values"][key])
        except KeyError:
            raise AttributeError(key) from None


class OneLoggerConfig(_Config):
    """What the job is. Values may be functions without arguments."""


class TrainingTelemetryConfig(_Config):
    """What the training is."""


class CheckPointStrategy:
    SYNC, ASYNC = "sync", "async"


class TrainingTelemetryProvider:
    """The builder. What it is told about exporters is left to `trainspan`."""

    _instance = None

    def __init__(self):
        self._base, self._ready, self.config = {}, False, None

    @classmethod
    def instance(cls):
        if cls._instance is None:
            TrainingTelemetryProvider._instance = cls()
        return cls._instance

    def with_base_config(self, config):
        quiet(lambda: self._base.update(_values(config)))()
        return self

    def with_config_override(self, override):
        def lay(over, under):
            for key, value in over.items():
                if isinstance(value, dict) and isinstance(under.get(key), dict):
                    lay(value, under[key])
                else:
                    under[key] = value

        quiet(lambda: lay(_values(override), self._base))()
        return self

    def with_exporter(self, *args, **kwargs):
        return self

    with_export_config = with_export_customization = with_exporter

    @quiet
    def configure_provider(self):
        self._ready, self.config = True, OneLoggerConfig(**self._base)
        if self._base.get("enable_for_current_rank") is False:
            _ring.disable()
            return
        _ring.configure("./one_logger", True)
        _train(self._base.get("telemetry_config"))
        _ring.call("configure_provider", {"base_config": self._base})

    @quiet
    def set_training_telemetry_config(self, config):
        values = _values(config)
        _train(values)
        _ring.call("set_training_telemetry_config", values)

    @property
    def one_logger_ready(self):
        return self._ready

    @property
    def one_logger_enabled(self):
        return self._ready and _ring.enabled()

    def force_disable_logging(self):
        _ring.disable()


def _train(values):
    _state["asynchronous"] = bool(values) and values.get("save_checkpoint_strategy") == CheckPointStrategy.ASYNC
