"""The spans of a training as context managers, which are also decorators.

A context returns its span, or a span that is not recorded if telemetry is off. Errors of the
body reach the program, and an iteration that raised does not count."""

from contextlib import ContextDecorator

from ..._guard import active
from ...core.span import Span
from . import callbacks
from .checkpoint import CheckPointStrategy


class Context(ContextDecorator):
    """The span between two callbacks."""

    __slots__ = ("_name", "_start", "_end", "_args", "_entered")

    def __init__(self, name, start, end, *args):
        self._name, self._start, self._end, self._args, self._entered = name, start, end, args, []

    def _recreate_cm(self):
        return type(self)(self._name, self._start, self._end, *self._args)

    def __enter__(self):
        span = self._start(*self._args)
        self._entered.append(span)
        return Span.create(self._name) if span is None else span

    def __exit__(self, kind, error, trace):
        span = self._entered.pop() if self._entered else None
        if kind is not None and span is not None:
            span._failed = error or kind or True
            self._hurt()
        self._end()

    def _hurt(self):
        recorder = active()
        if recorder is not None:
            recorder._touched = True


class _Save(Context):
    """A context that records that the checkpoint is stored, if the training waits for that."""

    __slots__ = ()

    def __exit__(self, kind, error, trace):
        recorder = active()
        config = getattr(recorder, "_config", None) and recorder._config.telemetry_config
        try:
            if kind is None and config is not None and config.save_checkpoint_strategy == CheckPointStrategy.SYNC:
                callbacks.on_save_checkpoint_success(*self._args)
        finally:
            super().__exit__(kind, error, trace)


def application():
    return Context("application", callbacks.on_app_start, callbacks.on_app_end)


def model_init():
    return Context("model_initialization", callbacks.on_model_init_start, callbacks.on_model_init_end)


def dataloader_init():
    return Context("data_loader_initialization", callbacks.on_dataloader_init_start, callbacks.on_dataloader_init_end)


def optimizer_init():
    return Context("optimizer_initialization", callbacks.on_optimizer_init_start, callbacks.on_optimizer_init_end)


def training_loop(train_iterations_start, train_samples_start=None, train_iterations_target_or_fn=None, train_samples_target_or_fn=None):
    return Context("training_loop", callbacks.on_train_start, callbacks.on_train_end, train_iterations_start, train_samples_start,
                   train_iterations_target_or_fn, train_samples_target_or_fn)  # fmt: skip


def training_iteration():
    return Context("training_single_iteration", callbacks.on_training_single_iteration_start, callbacks.on_training_single_iteration_end)


def validation_loop():
    return Context("validation_loop", callbacks.on_validation_start, callbacks.on_validation_end)


def validation_iteration():
    return Context("validation_single_iteration", callbacks.on_validation_single_iteration_start, callbacks.on_validation_single_iteration_end)


def testing_loop():
    return Context("testing_loop", callbacks.on_testing_start, callbacks.on_testing_end)


def checkpoint_load():
    return Context("checkpoint_load", callbacks.on_load_checkpoint_start, callbacks.on_load_checkpoint_end)


def checkpoint_save(global_step):
    return _Save("checkpoint_save", callbacks.on_save_checkpoint_start, callbacks.on_save_checkpoint_end, global_step)
