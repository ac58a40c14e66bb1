"""The callbacks of a training. Times are milliseconds since the epoch; None means now.

A start callback returns its span, None if telemetry is off or had a quiet error."""

from ... import _guard
from ..._guard import active, fault, guarded
from ...core.exceptions import OneLoggerError, assert_that
from ...core.time import TracingTimestamp
from .training_recorder import TrainingRecorder


def _at(msec):
    return TracingTimestamp.for_timestamp(msec / 1000.0) if msec else None


def _recorder():
    recorder = active()
    if not isinstance(recorder, TrainingRecorder):
        raise OneLoggerError("the recorder is not a TrainingRecorder: configure TrainingTelemetryProvider")
    return recorder


def _pair(key):
    """Returns the two callbacks of a span that need only a time."""
    starts, ends = "on_%s_start" % key, "on_%s_end" % key

    def start(start_time_msec=None):
        return getattr(_recorder(), starts)(_at(start_time_msec))

    def end(finish_time_msec=None):
        return getattr(_recorder(), ends.replace("train_", "training_loop_"))(_at(finish_time_msec))

    for f, name in ((start, starts), (end, ends)):
        f.__name__ = f.__qualname__ = name
    return guarded(start), guarded(end)


on_app_start, on_app_end = _pair("app")
on_distributed_init_start, on_distributed_init_end = _pair("distributed_init")
on_model_init_start, on_model_init_end = _pair("model_init")
on_dataloader_init_start, on_dataloader_init_end = _pair("dataloader_init")
on_load_checkpoint_start, on_load_checkpoint_end = _pair("load_checkpoint")
on_optimizer_init_start, on_optimizer_init_end = _pair("optimizer_init")
on_validation_start, on_validation_end = _pair("validation")
on_validation_single_iteration_start, on_validation_single_iteration_end = _pair("validation_single_iteration")
on_testing_start, on_testing_end = _pair("testing")
on_train_end = _pair("train")[1]
_start_iteration, _end_iteration = _pair("training_single_iteration")


def on_training_single_iteration_start(start_time_msec=None):
    recorder = _guard.plain
    if recorder is not None and not start_time_msec:
        try:
            span = recorder.quick_start()
            if span is not None:
                return span
        except Exception as e:
            return fault("on_training_single_iteration_start", e)
    return _start_iteration(start_time_msec)


def on_training_single_iteration_end(finish_time_msec=None):
    recorder = _guard.plain
    if recorder is not None and not finish_time_msec:
        try:
            if recorder.quick_end():
                return None
        except Exception as e:
            return fault("on_training_single_iteration_end", e)
    return _end_iteration(finish_time_msec)


def _value(value):
    return value() if callable(value) else value


@guarded
def on_train_start(train_iterations_start, train_samples_start=None, train_iterations_target_or_fn=None, train_samples_target_or_fn=None,
                   start_time_msec=None):  # fmt: skip
    """Starts the training loop. The samples of earlier runs default to their iterations times
    the batch size; targets default to those of the configuration."""
    recorder = _recorder()
    config = recorder._config.telemetry_config
    assert_that(config is not None, "Training telemetry config must be set before starting the training loop.")
    assert_that(train_iterations_start is not None, "train_iterations_start is required.")
    if train_samples_start is None:
        train_samples_start = train_iterations_start * config.global_batch_size
    iterations, samples = _value(train_iterations_target_or_fn), _value(train_samples_target_or_fn)
    iterations = config.train_iterations_target if iterations is None else iterations
    samples = config.train_samples_target if samples is None else samples
    for field, value in (("train_iterations_target", iterations), ("train_samples_target", samples)):
        assert_that(value is None or value > 0, "%s must be a positive integer, not %s." % (field, value))
    seq = config.seq_length
    return recorder.on_training_loop_start(
        train_iterations_start, train_samples_start, iterations, samples, seq * samples if seq and samples else None, _at(start_time_msec)
    )


@guarded
def on_save_checkpoint_start(global_step, start_time_msec=None):
    """Starts the part of a save that the training waits for, of the state after global_step
    iterations."""
    return _recorder().on_save_checkpoint_start(global_step, _at(start_time_msec))


@guarded
def on_save_checkpoint_success(global_step, time_msec=None):
    """Records that the checkpoint is stored: the work before it is productive."""
    _recorder().on_save_checkpoint_success(global_step, _at(time_msec))


@guarded
def on_save_checkpoint_end(finish_time_msec=None):
    _recorder().on_save_checkpoint_end(_at(finish_time_msec))
