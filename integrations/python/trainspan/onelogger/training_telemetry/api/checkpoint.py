"""How checkpoints are saved."""

from ...._enum import StrEnum


class CheckPointStrategy(StrEnum):
    """Whether the training waits for a checkpoint or continues while it is written."""

    SYNC = "sync"
    ASYNC = "async"


class CheckPointType(StrEnum):
    """Whether a checkpoint is for the job or for a rank."""

    GLOBAL = "global"
    LOCAL = "local"
