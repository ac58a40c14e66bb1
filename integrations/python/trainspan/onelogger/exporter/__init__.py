"""Exporters in the process."""

from .exporter import Exporter  # noqa: F401
from .file_exporter import FileExporter  # noqa: F401
from .logger_exporter import LoggerExporter  # noqa: F401
