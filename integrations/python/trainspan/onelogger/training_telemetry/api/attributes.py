"""The attributes of the spans and events of training.

Each class is a table: its attributes in their order, with their types; ? after the type means
that an attribute may be missing, ?0 that it is missing if it is 0. The first parameters of
create() are the required ones."""

import inspect
from typing import TYPE_CHECKING, Any

from ...core.attributes import Attribute, Attributes
from ...core.exceptions import OneLoggerError, assert_that


class _Table(Attributes):
    TABLE = ""

    if TYPE_CHECKING:  # __init_subclass__ defines these

        @classmethod
        def create(cls, *args: Any, **kwargs: Any) -> Any: ...

        def __getattr__(self, name: str) -> Any: ...

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls._types, cls._nonzero = {}, []
        for line in cls.TABLE.split("\n"):
            name, _, kind = line.strip().partition(" ")
            if name:
                kind, _, mark = kind.partition("?")
                cls._types[name] = (kind, line.rstrip().endswith(("?", "?0")))
                if mark == "0":
                    cls._nonzero.append(name)
                setattr(cls, name, property(lambda self, name=name: self._read(name)))
        order = sorted(cls._types, key=lambda name: cls._types[name][1])
        keep = inspect.Parameter.POSITIONAL_OR_KEYWORD
        own = [inspect.Parameter(n, keep, default=None if cls._types[n][1] else inspect.Parameter.empty) for n in order]
        signature, needed = inspect.Signature(own), {n for n in order if not cls._types[n][1]}
        rows = [(name, missing, name in cls._nonzero) for name, (_, missing) in cls._types.items()]

        def create(cls, *args, **kwargs):
            if args or not needed <= kwargs.keys() <= cls._types.keys():
                kwargs = signature.bind(*args, **kwargs).arguments  # this takes 50 us
            attributes, get = cls(), kwargs.get
            for name, missing, nonzero in rows:
                value = get(name)
                if value is None:
                    if not missing:
                        raise OneLoggerError("%s is required." % name)
                elif value or not nonzero:
                    attributes[name] = Attribute(name, _flat(value) if isinstance(value, dict) else value)
            return attributes

        create.__signature__ = inspect.Signature([inspect.Parameter("cls", keep)] + own)
        create.__doc__ = "New attributes of these values."
        cls.create = classmethod(create)

    def _read(self, name):
        kind, missing = self._types[name]
        value = getattr(self, "get_%s_value" % kind)(name) if kind in ("int", "float", "bool", "str") else self.get(name) and self[name].value
        assert_that(missing or value is not None, "%s is required." % name)
        return value


def _flat(value):
    """Returns metadata as a list of texts, "key:value"."""
    return ["%s:%s" % item for item in value.items()]


class TrainingLoopAttributes(_Table):
    """The attributes of the span training_loop."""

    TABLE = """
        train_iterations_start int
        train_samples_start int
        train_tokens_target int?
        completed_floating_point_operations_overall int?
        train_iterations_target int?
        train_samples_target int?
    """


class CheckpointSaveSpanAttributes(_Table):
    """The attributes of the spans checkpoint_save_sync and checkpoint_save_async."""

    TABLE = """
        checkpoint_strategy str
        current_iteration int
        save_checkpoint_attempt_count int
    """


class OneLoggerInitializationAttributes(_Table):
    """The attributes of the event one_logger_initialization."""

    TABLE = """
        world_size int
        one_logger_training_telemetry_version str
        enable_for_current_rank bool
        session_tag str
        is_baseline_run bool
        summary_data_schema_version str
        node_name str
        rank int
        custom_metadata list?
    """


class TrainingTelemetryAttributes(_Table):
    """The attributes of the event update_training_telemetry_config."""

    TABLE = """
        perf_tag texts
        global_batch_size int
        log_every_n_train_iterations int
        micro_batch_size int?
        seq_length int?
        flops_per_sample int?
        train_iterations_target int?
        train_samples_target int?
        checkpoint_strategy str?
        is_train_iterations_enabled bool?
        is_validation_iterations_enabled bool?
        is_test_iterations_enabled bool?
        is_save_checkpoint_enabled bool?
        is_log_throughput_enabled bool?
        custom_metadata list?
    """

    @property
    def app_type(self):
        return self.get_str_value("app_type")


class TrainingMetricsUpdateAttributes(_Table):
    """The attributes of the event training_metrics_update."""

    TABLE = """
        train_iterations_start int
        current_iteration int
        num_iterations int
        train_samples_start int
        num_train_samples int
        interval int
        avg_iteration_time_sec float
        min_iteration_time_sec float
        max_iteration_time_sec float
        total_iteration_time_sec float
        avg_forward_time_sec float?
        avg_backward_time_sec float?
        avg_dataloader_time_sec float?
        avg_tflops float?
        train_tokens int?
        avg_tokens_per_second float?
        latest_loss float?
        avg_batch_size int?
        completed_floating_point_operations_overall int?
        total_flops int?
        train_throughput_per_gpu float?
        train_throughput_per_gpu_max float?
        train_throughput_per_gpu_min float?
        first_logged_train_iterations_finish_timestamp_sec float?
        last_logged_train_iterations_finish_timestamp_sec float?
    """


class ValidationMetricsUpdateAttributes(_Table):
    """The attributes of the event validation_metrics_update."""

    TABLE = """
        current_iteration int
        interval int
        avg_iteration_time_sec float?
        min_iteration_time_sec float?
        max_iteration_time_sec float?
        total_iteration_time_sec float?
    """


class TestingMetricsUpdateAttributes(_Table):
    """The attributes of the event testing_metrics_update."""

    TABLE = """
        current_iteration int
        interval int
    """


class SaveCheckpointSuccessEventAttributes(_Table):
    """The attributes of the event save_checkpoint_success."""

    TABLE = """
        checkpoint_strategy str
        current_iteration int
        first_successful_save_checkpoint_timestamp_sec float
        latest_successful_save_checkpoint_timestamp_sec float
        save_checkpoint_success_count int
        productive_train_iterations int
        productive_train_samples int
        productive_train_iterations_sec float
        productive_validation_iterations_sec float
        productive_train_tflops float?
        checkpoint_size int?
        checkpoint_directory str?
        training_start_timestamp_sec float?0
    """


class SyncCheckpointMetricsUpdateAttributes(_Table):
    """The attributes of the event sync_checkpoint_metrics_update."""

    TABLE = """
        save_checkpoint_sync_time_total_sec float
        save_checkpoint_sync_time_min_sec float
        save_checkpoint_sync_time_max_sec float
    """
