"""Exports spans with an exporter of OpenTelemetry's SDK, which the program has installed."""

from opentelemetry.sdk.trace import TracerProvider  # type: ignore[import-not-found]
from opentelemetry.sdk.trace.export import BatchSpanProcessor  # type: ignore[import-not-found]
from opentelemetry.trace import Status, StatusCode, set_span_in_context  # type: ignore[import-not-found]

from ...exporter.exporter import BaseExporter


def _nanoseconds(at):
    return int(round(at.seconds_since_epoch * 1e6)) * 1000


def _plain(attributes):
    """Converts attributes for OpenTelemetry: values other than scalars and lists of one scalar
    type become text."""

    def fits(value):
        return isinstance(value, (str, bool, float)) or isinstance(value, int) and -(1 << 63) <= value < 1 << 63

    def value(v):
        if isinstance(v, (list, tuple)) and all(fits(item) and type(item) is type(v[0]) for item in v):
            return list(v)
        if not fits(v):
            return str(v)
        return str(v) if isinstance(v, str) else v

    return {str(k): value(v) for k, v in attributes.to_json().items()}


class OTelExporter(BaseExporter):
    """Passes each span to an exporter of OpenTelemetry as one span with its events, below its
    nearest exported ancestor; an error sets its status."""

    def __init__(self, otel_span_exporter):
        super().__init__()
        self._exporter, self._provider, self._open = otel_span_exporter, None, {}

    def initialize(self):
        super().initialize()
        self._provider = TracerProvider()
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self._tracer = self._provider.get_tracer("one_logger")

    def export_start(self, span):
        super().export_start(span)
        above = span.parent_span
        while above is not None and above.id not in self._open:
            above = above.parent_span
        context = None if above is None else set_span_in_context(self._open[above.id])
        self._open[span.id] = self._start(span.name_str, span.attributes, span.start_event.timestamp, context, one_logger_span_id=str(span.id))

    def export_stop(self, span):
        super().export_stop(span)
        made = self._open.pop(span.id)
        made.set_attributes(_plain(span.updated_attributes))
        made.end(_nanoseconds(span.stop_event.timestamp))

    def export_event(self, event, span):
        super().export_event(event, span)
        self._open[span.id].add_event(event.name_str, _plain(event.attributes), _nanoseconds(event.timestamp))

    def export_error(self, event, span):
        super().export_error(event, span)
        made = self._open[span.id]
        made.add_event(event.name_str, _plain(event.attributes), _nanoseconds(event.timestamp))
        made.set_status(Status(StatusCode.ERROR, event.error_message))

    def export_telemetry_data_error(self, error):
        super().export_telemetry_data_error(error)
        made = self._start("span_for_telemetry_data_error", error.attributes, error.timestamp)
        made.add_event(error.name_str, _plain(error.attributes), _nanoseconds(error.timestamp))
        made.set_status(Status(StatusCode.ERROR, error.error_message))
        made.end(_nanoseconds(error.timestamp))

    def close(self):
        if self._provider is not None:
            self._provider.shutdown()
        super().close()

    def _start(self, name, attributes, at, context=None, **more):
        return self._tracer.start_span(name, context, attributes=dict(_plain(attributes), **more), start_time=_nanoseconds(at))
