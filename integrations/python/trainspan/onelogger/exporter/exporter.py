"""The base classes of exporters, also for those of a program."""

from abc import ABC, abstractmethod
from enum import Enum

from ..core.exceptions import OneLoggerError


class ExportError(OneLoggerError):
    """Raised when an exporter cannot execute a call."""

    def __init__(self, message):
        super().__init__(message)


class Exporter(ABC):
    """Receives the records in order, one call at a time, on a separate thread."""

    @abstractmethod
    def initialize(self):
        """Called once, before the other methods, during the configuration of the program."""

    @abstractmethod
    def export_start(self, span):
        """Called when a span has started."""

    @abstractmethod
    def export_stop(self, span):
        """Called when a span has stopped."""

    @abstractmethod
    def export_event(self, event, span):
        """Called when an event has happened during a span."""

    @abstractmethod
    def export_error(self, event, span):
        """Called when an error has happened during a span."""

    @abstractmethod
    def export_telemetry_data_error(self, error):
        """Called when the data has a gap."""

    @abstractmethod
    def close(self):
        """Called once, at the end."""


class BaseExporter(Exporter):
    """An exporter that may be used between initialize and close."""

    class _State(Enum):
        NOT_INITIALIZED = 1
        READY = 2
        CLOSED = 3

    def __init__(self):
        self._state = self._State.NOT_INITIALIZED

    def initialize(self):
        self._state = self._State.READY

    def export_start(self, span):
        self._check_state()

    def export_stop(self, span):
        self._check_state()

    def export_event(self, event, span):
        self._check_state()

    def export_error(self, event, span):
        self._check_state()

    def export_telemetry_data_error(self, error):
        self._check_state()

    def close(self):
        self._state = self._State.CLOSED

    @property
    def ready(self):
        return self._state is self._State.READY

    @property
    def closed(self):
        return self._state is self._State.CLOSED

    def _check_state(self):
        if self._state is self._State.READY:
            return
        if self._state is self._State.NOT_INITIALIZED:
            raise ExportError("Exporter not initialized. Call initialize first.")
        if self._state is self._State.CLOSED:
            raise ExportError("Exporter is closed and cannot be used anymore.")
