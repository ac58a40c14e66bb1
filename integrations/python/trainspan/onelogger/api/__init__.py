"""What a program uses: its configuration, the recorder, spans by name."""

from .config import LoggerConfig, OneLoggerConfig, OneLoggerErrorHandlingStrategy  # noqa: F401
