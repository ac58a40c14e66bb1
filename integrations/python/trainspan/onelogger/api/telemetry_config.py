"""The part of a configuration that every recorder needs."""

from typing import Protocol, runtime_checkable

from ..._enum import StrEnum


class ApplicationType(StrEnum):
    """The kind of a program."""

    TRAINING = "training"
    VALIDATION = "validation"
    BATCH_INFERENCE = "batch_inference"
    ONLINE_INFERENCE = "online_inference"
    DATA_PROCESSING = "data_processing"


@runtime_checkable
class TelemetryConfig(Protocol):
    """The fields of a telemetry configuration. TrainingTelemetryConfig is one."""

    @property
    def is_train_iterations_enabled(self) -> bool: ...

    @property
    def is_validation_iterations_enabled(self) -> bool: ...

    @property
    def is_test_iterations_enabled(self) -> bool: ...

    @property
    def is_save_checkpoint_enabled(self) -> bool: ...

    @property
    def app_type(self): ...

    @property
    def custom_metadata(self): ...
