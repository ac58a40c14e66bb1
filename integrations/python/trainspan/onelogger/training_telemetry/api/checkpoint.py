"""How checkpoints are saved."""

from ...._enum import StrEnum


class CheckPointStrategy(StrEnum):
    """Whether training waits for a checkpoint or goes on while it is written."""

    SYNC = "sync"
    ASYNC = "async"


class CheckPointType(StrEnum):
    """Whether a checkpoint is of the job or of a rank."""

    GLOBAL = "global"
    LOCAL = "local"
