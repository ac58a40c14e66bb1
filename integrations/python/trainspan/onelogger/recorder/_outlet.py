"""Passes records from the program to the exporters of its process.

The program puts calls into a queue, and a thread executes them in order, so that a slow
exporter does not delay the training. Exporters get copies of the spans, which belong to that
thread and are updated with the program's spans. A span that the filter excludes has a copy if a
span below it is exported."""

import atexit
import collections
import logging
import os
import threading
import time
import weakref

from ..core.event import TelemetryDataError
from ..core.span import Span

log = logging.getLogger("trainspan.onelogger")

FAILURES = 5  # after these an exporter is no longer used
MOST = 100_000  # waiting calls
PATIENCE = 10.0  # seconds that the end waits for exporters
LINGER = 0.1  # seconds that the thread waits for further calls before it must be woken, which costs as much as a call

_all: "weakref.WeakSet[Outlet]" = weakref.WeakSet()


class State:
    """The results of the calls of an exporter."""

    def __init__(self):
        self.num_errors, self.any_data_exported_successfully = 0, False
        self.force_disabled = self.telemetry_data_error_reported = False


class Outlet:
    """Exporters, and the calls that wait for them."""

    def __init__(self, exporters):
        self.exporters, self.states = list(exporters), [State() for _ in exporters]
        self._queue, self._ready, self._thread = collections.deque(), threading.Condition(), None
        self._busy, self._asleep, self.lost, self._closed = False, False, 0, False
        _all.add(self)

    # The program's side.

    def start(self, span):
        self.put(self.tell, "export_start", self._copied(span))

    def _copied(self, span):
        """Returns the copy of a span in its current state; the span itself if no recorder has
        it."""
        if span is None or span._ref is None:
            return span
        copy = span._copy
        if copy is None:
            copy = span._copy = Span(span.id, span.name, span.start_event, self._copied(span.parent_span), span._initial)
            copy._initial, copy._updated = (type(given).merge(given) for given in (copy._initial, span._updated))
            copy._events += span.events[1:]
            copy._running = span._running
        return copy

    def set(self, span, attributes):
        if span._copy is not None:
            self.put(span._copy.add_attributes, type(attributes).merge(attributes))

    def event(self, method, event, span, shown):
        if span._copy is not None or shown:
            self.put(self._happened, method, event, span._copy, shown)

    def _happened(self, method, event, copy, shown):
        if copy is not None:
            copy.add_event(event)
        if shown:
            self.tell(method, event, copy)

    def stop(self, span, shown):
        if span._copy is None:
            return
        copy, event, attributes = span._copy, span.stop_event, span.updated_attributes

        def stop():
            copy.add_event(event)
            copy._updated, copy._running = attributes, False

        self.put(stop)
        if shown:
            self.put(self.tell, "export_stop", copy)

    def data_error(self, message, attributes=None):
        for number in range(len(self.exporters)):
            self.put(self._data_error, number, message, attributes)

    def close(self):
        """Closes the exporters, and waits for that a limited time."""
        if not self._closed:
            self._closed = True
            self.put(self._close)
            self.wait()
            _all.discard(self)
            if self.lost:
                log.error("%d calls of exporters are missing: the exporters were too slow", self.lost)

    def put(self, call, *args):
        with self._ready:
            if len(self._queue) >= MOST:
                self.lost += 1
                return
            self._queue.append((call, args))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="trainspan exporters", daemon=True)
                self._thread.start()
            if self._asleep:
                self._ready.notify_all()

    def wait(self, seconds=None):
        """Waits until all calls are executed, at most the given seconds."""
        end = time.monotonic() + (PATIENCE if seconds is None else seconds)
        with self._ready:
            self._ready.notify_all()
            while self._queue or self._busy:
                left = end - time.monotonic()
                if left <= 0:
                    log.error("exporters did not finish %d calls within %g s", len(self._queue) + self._busy, PATIENCE)
                    return
                self._ready.wait(left)

    # The side of the exporters.

    def _run(self):
        while True:
            with self._ready:
                self._busy = False
                self._ready.notify_all()
                if not self._queue:
                    self._asleep = not self._ready.wait(LINGER)
                while not self._queue:
                    self._asleep = True
                    self._ready.wait()
                self._asleep = False
                queue, self._busy = self._queue, True
            while queue:
                call, args = queue.popleft()
                try:
                    call(*args)
                except Exception as e:
                    log.error("telemetry could not be exported: %s", e)

    def tell(self, method, *args):
        for number in range(len(self.exporters)):
            self._tell(number, method, *args)

    def _tell(self, number, method, *args):
        exporter, state = self.exporters[number], self.states[number]
        if state.force_disabled:
            return
        try:
            getattr(exporter, method)(*args)
            state.any_data_exported_successfully = True
        except Exception as e:
            state.num_errors += 1
            message = "Error exporting data via exporter %s: %s" % (type(exporter).__name__, e)
            log.error(message)
            if not state.telemetry_data_error_reported:
                state.telemetry_data_error_reported = True
                try:
                    exporter.export_telemetry_data_error(self._error(state, message))
                except Exception as e:
                    log.error("Could not export telemetry data error for exporter %s: %s", type(exporter).__name__, e)
        if state.num_errors >= FAILURES:
            log.error("Exporter %s is disabled after %d failures.", type(exporter).__name__, state.num_errors)
            state.force_disabled = True

    @staticmethod
    def _error(state, message, attributes=None):
        kinds = TelemetryDataError.ErrorType
        kind = kinds.INCOMPLETE_TELEMETRY_DATA if state.any_data_exported_successfully else kinds.NO_TELEMETRY_DATA
        return TelemetryDataError.create(kind, message, attributes)

    def _data_error(self, number, message, attributes):
        state = self.states[number]
        if not state.telemetry_data_error_reported:
            state.telemetry_data_error_reported = True
            self._tell(number, "export_telemetry_data_error", self._error(state, message, attributes))

    def _close(self):
        for exporter in self.exporters:
            try:
                exporter.close()
            except Exception as e:
                log.error("Could not close the exporter %s: %s", type(exporter).__name__, e)

    def abandon(self):
        """Runs after a fork: the exporters belong to the parent."""
        self.exporters, self.states, self._closed = [], [], True
        self._queue, self._ready, self._thread, self._busy = collections.deque(), threading.Condition(), None, False


@atexit.register
def _finish():
    for outlet in list(_all):
        outlet.wait()


def _child():
    for outlet in list(_all):
        outlet.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_child)
