"""The names for training programs."""

from .callbacks import *  # noqa: F401,F403
from .checkpoint import CheckPointStrategy  # noqa: F401
from .config import TrainingTelemetryConfig  # noqa: F401
from .context import application, checkpoint_save, training_iteration, training_loop  # noqa: F401
from .spans import StandardTrainingJobSpanName  # noqa: F401
from .training_recorder import TrainingRecorder  # noqa: F401
from .training_telemetry_provider import TrainingTelemetryProvider  # noqa: F401
