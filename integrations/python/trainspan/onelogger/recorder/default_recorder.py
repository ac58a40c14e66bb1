"""The recorder of spans of any kind."""

import os
import traceback
import weakref
from contextvars import ContextVar
from enum import Enum
from threading import RLock

from ... import _ring
from .. import _wire
from .._guard import guarded
from ..api.recorder import Recorder
from ..core.attributes import attributes_of
from ..core.event import ErrorEvent
from ..core.exceptions import OneLoggerError, assert_that
from ..core.span import Span
from ._outlet import Outlet


_all: "weakref.WeakSet[DefaultRecorder]" = weakref.WeakSet()


class ExportCustomizationMode(Enum):
    """Which spans are exported: all, those in a list, or all except those."""

    EXPORT_ALL_SPANS = 1
    WHITELIST_SPANS = 2
    BLACKLIST_SPANS = 3


class DefaultRecorder(Recorder):
    """Records spans for exporters, and for `trainspan`. The parent of a span is the current one
    of its thread or task, unless another one is given. Errors of an exporter affect only
    that exporter: it gets the error that its data has a gap, and is no longer used after
    five."""

    def __init__(self, exporters, export_customization_mode=ExportCustomizationMode.EXPORT_ALL_SPANS, span_name_filter=None):
        mode = export_customization_mode
        if mode is ExportCustomizationMode.EXPORT_ALL_SPANS:
            assert_that(not span_name_filter, "span_name_filter should not be set when export_customization_mode is %s" % mode)
        elif mode in (ExportCustomizationMode.WHITELIST_SPANS, ExportCustomizationMode.BLACKLIST_SPANS):
            assert_that(span_name_filter, "span_name_filter should be a non-empty list when export_customization_mode is %s" % mode.name)
        else:
            raise OneLoggerError("Invalid export_customization_mode: %s" % (mode,))
        self._mode, self._names = mode, frozenset(span_name_filter or ())
        self._latest = ContextVar("latest_active_span", default=None)
        self._spans, self._lock, self._closed = {}, RLock(), False
        _all.add(self)
        self._exporters = exporters
        for exporter in exporters:
            exporter.initialize()
        self._outlet = Outlet(exporters) if exporters else None

    @guarded
    def start(self, span_name, span_attributes=None, start_event_attributes=None, start_time=None, parent_span=None):
        return self._start_own(span_name, span_attributes, start_event_attributes, start_time, parent_span)

    @guarded
    def stop(self, span, stop_event_attributes=None, stop_time=None):
        assert_that(span, "No span to stop")
        self._stop_own(span, stop_event_attributes, stop_time)

    @guarded
    def event(self, span, event=None):
        if event is None:
            span, event = self._latest.get(), span
        assert_that(span, "No span to add event to")
        self._event(span, event)
        _wire.call("event", span=_wire.reference(span), name=event.name_str, attributes=_wire.values(event.attributes),
                   time_msec=_wire.milliseconds(event.timestamp))  # fmt: skip
        return event

    @guarded
    def error(self, span, error_message, exception=None):
        assert_that(span, "No span to add error to")
        trace = exception and "".join(traceback.format_exception(type(exception), exception, exception.__traceback__))
        event = ErrorEvent.create(error_message, exception, trace)
        self._event(span, event, "export_error")
        _wire.call("error", span=_wire.reference(span), message=error_message, exception_type=event.exception_type,
                   exception_message=event.exception_message, exception_traceback=event.exception_traceback)  # fmt: skip
        return event

    @guarded
    def telemetry_data_error(self, error_message, attributes=None):
        self._data_error(error_message, attributes_of(attributes))
        _wire.call("telemetry_data_error", message=error_message, attributes=_wire.values(attributes_of(attributes)))

    @guarded
    def close(self):
        self.end()
        _wire.call("close")

    def get_active_spans_by_name(self, span_name):
        return [span for span in list(self._open.values()) if span._name == span_name]

    @property
    def _open(self):
        """Returns the open spans by their id()."""
        return self._spans

    # The operations without the guard, and without recording the call.

    def _shown(self, name):
        """Returns whether spans with a name are exported."""
        if self._mode is ExportCustomizationMode.EXPORT_ALL_SPANS:
            return True
        return (name in self._names) == (self._mode is ExportCustomizationMode.WHITELIST_SPANS)

    def _start_own(self, name, attributes, start_attributes, at, parent):
        """Starts a span of the program."""
        number = _wire.numbers()
        span = self._begin(name, attributes_of(attributes), attributes_of(start_attributes), at, parent, number)
        _wire.opened(span, _ring.name(str(name), "telemetry", _ring.CALLED), at)
        _wire.call("start", span=number, name=str(name), parent=_wire.reference(span.parent_span), attributes=_wire.values(span.attributes),
                   start_event_attributes=_wire.values(attributes_of(start_attributes)),
                   start_time_msec=at and _wire.milliseconds(at))  # fmt: skip
        return span

    def _stop_own(self, span, stop_attributes, at):
        self._end(span, attributes_of(stop_attributes), at)
        _wire.ended(span, at)
        _wire.call("stop", span=_wire.reference(span), stop_event_attributes=_wire.values(attributes_of(stop_attributes)),
                   finish_time_msec=at and _wire.milliseconds(at), **_wire.failure(span._failed))  # fmt: skip

    def _begin(self, name, attributes, start_attributes, at, parent, reference):
        assert_that(not self._closed, "Recorder is already closed.")
        span = Span.create(name, parent or self._latest.get(), attributes, start_attributes, at)
        span._ref, span._hear = reference, self._set
        self._open[id(span)] = span
        self._latest.set(span)
        if self._outlet is not None and self._shown(name):
            self._outlet.start(span)
        return span

    def _end(self, span, stop_attributes=None, at=None):
        assert_that(not self._closed, "Recorder is already closed.")
        if self._open.pop(id(span), None) is None:
            raise OneLoggerError("Span %s not found" % getattr(span, "id", span))
        span.stop(stop_attributes, at)
        if self._latest.get() is span:
            above = span.parent_span
            while above is not None and not above.active:
                above = above.parent_span
            self._latest.set(above)
        if self._outlet is not None:
            self._outlet.stop(span, self._shown(span.name))

    def _event(self, span, event, method="export_event"):
        assert_that(not self._closed, "Recorder is already closed.")
        span.add_event(event)
        if self._outlet is not None and span._ref is not None:
            self._outlet.event(method, event, span, self._shown(span.name))

    @_wire.silent
    def _set(self, span, attributes):
        """Receives attributes that were set on a span after its start."""
        if self._outlet is not None:
            self._outlet.set(span, attributes)
        _wire.call("set", span=_wire.reference(span), attributes=_wire.values(attributes))

    def _data_error(self, message, attributes=None):
        if self._outlet is not None:
            self._outlet.data_error(message, attributes)

    def end(self):
        """Stops open spans, the latest first, and closes the exporters."""
        if self._closed:
            return
        for span in reversed(list(self._open.values())):
            self._over(span)
        self._closed = True
        if self._outlet is not None:
            self._outlet.close()

    def _over(self, span):
        """Stops a span that the program has left open."""
        self._end(span)
        _wire.ended(span)


def _child():
    for recorder in list(_all):
        recorder._lock = RLock()  # a thread of the parent may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_child)
