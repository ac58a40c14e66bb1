"""Spans of the program, by a name."""

from contextlib import ContextDecorator

from .._guard import active
from ..core.span import Span
from .one_logger_provider import OneLoggerProvider


def get_recorder():
    """Returns the recorder of the process."""
    return OneLoggerProvider.instance().recorder


class _Timed(ContextDecorator):
    """A span around each body that enters it, also for nested entries."""

    def __init__(self, name, *attributes):
        self._name, self._attributes, self._entered = name, attributes, []

    def _recreate_cm(self):
        return type(self)(self._name, *self._attributes)

    def __enter__(self):
        recorder, span = active(), None
        if recorder is not None:
            of_span, of_start = self._attributes
            span = recorder.start(span_name=self._name, span_attributes=of_span, start_event_attributes=of_start)
        self._entered.append((recorder, span))
        return Span.create(str(self._name)) if span is None else span

    def __exit__(self, kind, error, trace):
        recorder, span = self._entered.pop() if self._entered else (None, None)
        if span is None:
            return
        try:
            if kind is not None and kind is not GeneratorExit:  # the end of an abandoned generator
                span._failed = error or kind
            if isinstance(error, Exception):
                recorder.error(span, "Error in %s: " % self._name, error)
        finally:
            recorder.stop(span)


def timed_span(name, span_attributes=None, start_event_attributes=None):
    """Returns a span around the body, with its error if it raises one. If telemetry is off, it
    is not recorded."""
    return _Timed(name, span_attributes, start_event_attributes)
