"""What records spans."""

from abc import ABC, abstractmethod


class Recorder(ABC):
    """Records spans, their events and errors."""

    @abstractmethod
    def start(self, span_name, span_attributes=None, start_event_attributes=None, start_time=None, parent_span=None):
        """Starts a span, below the one that the caller is in unless a parent is given."""

    @abstractmethod
    def stop(self, span, stop_event_attributes=None, stop_time=None):
        """Stops a span."""

    @abstractmethod
    def event(self, span, event=None):
        """Adds an event to an open span, and gives the event. An event alone is one of the
        span that the caller is in."""

    @abstractmethod
    def error(self, span, error_message, exception=None):
        """Adds an error to an open span, and gives its event."""

    @abstractmethod
    def telemetry_data_error(self, error_message, attributes=None):
        """Says that the telemetry of this run is not whole."""

    @abstractmethod
    def close(self):
        """Stops what is open and ends the recording."""
