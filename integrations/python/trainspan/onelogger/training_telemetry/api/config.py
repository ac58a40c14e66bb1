"""The configuration of a training."""

from ... import _model as m
from ...api.telemetry_config import ApplicationType
from ...core.exceptions import OneLoggerError
from .checkpoint import CheckPointStrategy

_on = m.or_function(m.truth)
_number = m.optional(m.or_function(m.whole))


class TrainingTelemetryConfig(m.Model):
    """The description of a training. A field that ends in _or_fn takes a value or a function
    without arguments; the attribute without that suffix calls it each time.

    Programs for the older API describe the program here, too: the fields of OneLoggerConfig are
    kept for TrainingTelemetryBuilder."""

    FIELDS = {
        "is_train_iterations_enabled_or_fn": (_on, True),
        "is_validation_iterations_enabled_or_fn": (_on, True),
        "is_test_iterations_enabled_or_fn": (_on, True),
        "is_save_checkpoint_enabled_or_fn": (_on, True),
        "custom_metadata": (m.optional(m.metadata), None),
        "perf_tag_or_fn": (m.or_function(m.texts), m.REQUIRED),
        "global_batch_size_or_fn": (m.or_function(m.whole), m.REQUIRED),
        "micro_batch_size_or_fn": (_number, None),
        "seq_length_or_fn": (_number, None),
        "flops_per_sample_or_fn": (_number, None),
        "train_iterations_target_or_fn": (_number, None),
        "train_samples_target_or_fn": (_number, None),
        "log_every_n_train_iterations": (m.whole, 50),
        "is_log_throughput_enabled_or_fn": (_on, False),
        "save_checkpoint_strategy": (m.member(CheckPointStrategy), CheckPointStrategy.SYNC),
    }

    def before(self, values):
        self.__dict__["_others"] = {k: v for k, v in values.items() if k not in self.FIELDS}
        return values

    @property
    def app_type(self):
        return ApplicationType.TRAINING

    def validate_training_telemetry_config(self):
        self.after()
        return self

    def after(self):
        if self.global_batch_size <= 0:
            raise OneLoggerError("global_batch_size must be set to a positive value")
        if self.log_every_n_train_iterations <= 0:
            raise OneLoggerError("log_every_n_train_iterations must be set to a positive value ")
        if self.is_log_throughput_enabled and (self.flops_per_sample or 0) <= 0:
            raise OneLoggerError("flops_per_sample must be set to a positive value when is_log_throughput_enabled is True")
