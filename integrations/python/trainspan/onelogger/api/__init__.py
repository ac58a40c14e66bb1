"""The names for programs: configuration, the recorder, spans by name."""

from .config import LoggerConfig, OneLoggerConfig, OneLoggerErrorHandlingStrategy  # noqa: F401
