"""Spans of the program's own by a name."""

from contextlib import contextmanager

from .._guard import active
from ..core.span import Span
from .one_logger_provider import OneLoggerProvider


def get_recorder():
    """The recorder of the process."""
    return OneLoggerProvider.instance().recorder


@contextmanager
def timed_span(name, span_attributes=None, start_event_attributes=None):
    """A span around the body, with its error if it raises one. Where telemetry is off, it
    is one that nobody records."""
    recorder = active()
    span = None if recorder is None else recorder.start(
        span_name=name, span_attributes=span_attributes, start_event_attributes=start_event_attributes
    )
    if span is None:
        yield Span.create(str(name))
        return
    try:
        yield span
    except BaseException as e:
        span._failed = e
        recorder.error(span, "Error in %s: " % name, e)
        raise
    finally:
        recorder.stop(span)
