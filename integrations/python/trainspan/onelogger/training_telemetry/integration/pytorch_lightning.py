"""Telemetry of a training with Lightning: a callback for its Trainer, and trainers that have it
and record the saves of checkpoints."""

import functools

try:
    from lightning.pytorch import Callback, Trainer  # type: ignore[import-not-found]
except ImportError:
    from pytorch_lightning import Callback, Trainer  # type: ignore[import-not-found]

from ..._guard import active
from ...api.one_logger_provider import OneLoggerProvider
from ..api import callbacks as on
from ..api.spans import StandardTrainingJobSpanName as names


class TimeEventCallback(Callback):
    """Calls the telemetry's callbacks from Lightning's. The program itself must call those that
    Lightning has no hook for: the end of the application, initializations, loading and
    testing. A trainer of hook_trainer_cls or OneLoggerPTLTrainer also records saves."""

    def __init__(self, training_telemetry_provider, call_on_app_start=True):
        self._provider = training_telemetry_provider
        if call_on_app_start:
            on.on_app_start()

    def on_train_start(self, trainer, pl_module):
        step, config = trainer.global_step, getattr(OneLoggerProvider.instance()._config, "telemetry_config", None)
        on.on_train_start(step, step * config.global_batch_size if config is not None else None)

    def on_train_end(self, trainer, pl_module):
        self._over(names.TRAINING_SINGLE_ITERATION)
        on.on_train_end()

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self._over(names.TRAINING_SINGLE_ITERATION)
        on.on_training_single_iteration_start()

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        on.on_training_single_iteration_end()

    def on_validation_start(self, trainer, pl_module):
        on.on_validation_start()

    def on_validation_end(self, trainer, pl_module):
        self._over(names.VALIDATION_SINGLE_ITERATION)
        on.on_validation_end()

    def on_validation_batch_start(self, trainer, pl_module, batch, batch_idx, dataloader_idx=0):
        self._over(names.VALIDATION_SINGLE_ITERATION)
        on.on_validation_single_iteration_start()

    def on_validation_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0):
        on.on_validation_single_iteration_end()

    def on_exception(self, trainer, pl_module, exception):
        for name in (names.TRAINING_SINGLE_ITERATION, names.VALIDATION_SINGLE_ITERATION):
            self._over(name, exception)

    @staticmethod
    def _over(name, error=None):
        """Ends an open iteration: Lightning does not report the end of a batch that a module
        skips, or of one that raises."""
        recorder = active()
        for span in recorder.get_active_spans_by_name(name) if recorder is not None else ():
            if error is not None:
                span._failed, recorder._touched = error, True
            getattr(on, "on_%s_end" % name)()

    def on_save_checkpoint_start(self, global_step):
        on.on_save_checkpoint_start(global_step)

    def on_save_checkpoint_success(self, global_step):
        on.on_save_checkpoint_success(global_step)

    def on_save_checkpoint_end(self, global_step=None):
        on.on_save_checkpoint_end()

    def _saving(self, trainer, save):
        """Saves a checkpoint inside of its span."""
        step = trainer.global_step
        self.on_save_checkpoint_start(step)
        try:
            result = save()
            self.on_save_checkpoint_success(step)
        finally:
            self.on_save_checkpoint_end(step)
        return result


def _calls(name):
    def call(self):
        getattr(on, name)()

    call.__name__, call.__qualname__ = name, "TimeEventCallback." + name
    return call


for _name in """on_app_end on_model_init_start on_model_init_end on_dataloader_init_start on_dataloader_init_end on_optimizer_init_start
on_optimizer_init_end on_load_checkpoint_start on_load_checkpoint_end on_testing_start on_testing_end""".split():
    setattr(TimeEventCallback, _name, _calls(_name))


def _with(callback, callbacks):
    """Returns a trainer's callbacks with the telemetry's first."""
    if callbacks is None:
        callbacks = []
    return [callback, *(callbacks if isinstance(callbacks, (list, tuple)) else [callbacks])]


def hook_trainer_cls(cls, training_telemetry_provider, telemetry_callback=None):
    """Changes a class of trainers: each of them has the callback, also as
    nv_one_logger_callback, and records saves. Returns the class and the callback."""
    callback = telemetry_callback or TimeEventCallback(training_telemetry_provider)
    init, save = cls.__init__, cls.save_checkpoint

    @functools.wraps(init)
    def __init__(self, *args, **kwargs):
        kwargs["callbacks"] = _with(callback, kwargs.get("callbacks"))
        init(self, *args, **kwargs)
        self._nv_one_logger_callback = callback

    @functools.wraps(save)
    def save_checkpoint(self, *args, **kwargs):
        return callback._saving(self, lambda: save(self, *args, **kwargs))

    cls.__init__, cls.save_checkpoint = __init__, save_checkpoint
    cls.nv_one_logger_callback = property(lambda self: getattr(self, "_nv_one_logger_callback", None))
    return cls, callback


class OneLoggerPTLTrainer(Trainer):
    """A Trainer that has the callback and records saves. trainer_config are the arguments of
    Trainer."""

    def __init__(self, trainer_config, training_telemetry_provider):
        self._nv_one_logger_callback = TimeEventCallback(training_telemetry_provider)
        config = dict(trainer_config)
        config["callbacks"] = _with(self._nv_one_logger_callback, config.get("callbacks"))
        super().__init__(**config)

    def save_checkpoint(self, filepath, weights_only=False, storage_options=None):
        self._nv_one_logger_callback._saving(self, lambda: super(OneLoggerPTLTrainer, self).save_checkpoint(filepath, weights_only, storage_options))

    @property
    def nv_one_logger_callback(self):
        return self._nv_one_logger_callback
