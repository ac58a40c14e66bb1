"""Records as JSON objects."""

import os
import threading
from abc import abstractmethod

from .exporter import BaseExporter


def _event(event):
    return {"name": event.name_str, "attributes": event._values()}


class BaseJsonExporter(BaseExporter):
    """Makes a record of each call; a subclass writes it. It delays the start of a span: if its
    stop comes next, one record has both."""

    def __init__(self):
        super().__init__()
        self._count, self._pid, self._held, self._latest = 0, os.getpid(), None, (None, "")
        self._lock = threading.RLock()

    def initialize(self):
        super().initialize()
        self._held = None

    def export_start(self, span):
        super().export_start(span)
        self._release()
        self._held = span

    def export_stop(self, span):
        super().export_stop(span)
        if self._held is not None and self._held.id == span.id:
            self._held = None
            self._record(self._span("complete", span, "start_event", "stop_event"))
            return
        self._release()
        self._record(self._span("stop", span, "stop_event"))

    def export_event(self, event, span):
        super().export_event(event, span)
        self._release()
        if self._latest[0] is not span.id:
            self._latest = span.id, str(span.id)  # most events are of one span
        self._record({"type": "event", "span_id": self._latest[1], "event": _event(event)})

    def export_error(self, event, span):
        super().export_error(event, span)
        self._release()
        self._record({"type": "application_error", "span_id": str(span.id), "event": _event(event)})

    def export_telemetry_data_error(self, error):
        super().export_telemetry_data_error(error)
        self._record({"type": "telemetry_data_error", "error": _event(error)})

    def close(self):
        self._release()
        super().close()

    def _release(self):
        """Writes the delayed start."""
        held, self._held = self._held, None
        if held is not None:
            self._record(self._span("start", held, "start_event"))

    def _span(self, kind, span, *events):
        record = {"type": kind, "id": str(span.id), "name": span.name_str}
        attributes = span.attributes
        if attributes:
            record["attributes"] = attributes.to_json()
        for name in events:
            record[name] = _event(getattr(span, name))
        return record

    def _record(self, record):
        with self._lock:
            self._count += 1
            record["count"], record["pid"] = self._count, self._pid
            self._write(record)

    @abstractmethod
    def _write(self, json_dict):
        """Writes a record."""
