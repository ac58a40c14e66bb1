"""The interface of recorders of spans."""

from abc import ABC, abstractmethod


class Recorder(ABC):
    """Records spans, their events and errors."""

    @abstractmethod
    def start(self, span_name, span_attributes=None, start_event_attributes=None, start_time=None, parent_span=None):
        """Starts a span, below the caller's current span unless a parent is given."""

    @abstractmethod
    def stop(self, span, stop_event_attributes=None, stop_time=None):
        """Stops a span."""

    @abstractmethod
    def event(self, span, event=None):
        """Adds an event to an open span, and returns the event. A sole argument is an event for
        the caller's current span."""

    @abstractmethod
    def error(self, span, error_message, exception=None):
        """Adds an error to an open span, and returns its event."""

    @abstractmethod
    def telemetry_data_error(self, error_message, attributes=None):
        """Records that the telemetry of this run is incomplete."""

    @abstractmethod
    def close(self):
        """Stops open spans and ends the recording."""
