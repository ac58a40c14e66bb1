"""Sends spans with the OpenTelemetry SDK of PyPI: "protobuf" or "json", and what is in them.

otel-pins.txt has the versions.
"""

import os
import sys
import threading

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

if sys.argv[1] == "json":
    from opentelemetry.exporter.otlp.json.http.trace_exporter import OTLPSpanExporter
else:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

provider = TracerProvider(resource=Resource.create({"service.name": "trainer", "training.rank": int(os.environ.get("RANK", "0")), "host.name": "node7", "process.pid": 1234}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=os.environ["ENDPOINT"] + "/v1/traces"), schedule_delay_millis=600000))
tracer, other = provider.get_tracer("example.train"), provider.get_tracer("example.io", "1.2")

with tracer.start_as_current_span("application") as app:
    app.set_attribute("list", ["a", "b"])
    app.set_attribute("share", 0.25)
    for step in range(3):
        with tracer.start_as_current_span("training_single_iteration", attributes={"step": step}) as it:
            it.add_event("loss", {"value": 2.5 - step})
            with other.start_as_current_span("read", kind=SpanKind.CLIENT, attributes={"path": "/data/%d" % step, "cached": False}):
                pass
            with tracer.start_as_current_span("model_forward"):
                pass
        if step == 0:
            provider.force_flush()  # children are sent before what they are in
    try:
        with tracer.start_as_current_span("model_backward"):
            raise ValueError("not a number")
    except ValueError:
        pass
    with tracer.start_as_current_span("linked", links=[Link(it.get_span_context(), {"why": "retry"})]) as linked:
        linked.set_status(Status(StatusCode.OK))
    parent = trace.set_span_in_context(app)

    def beside():
        with tracer.start_as_current_span("checkpoint_save_async", context=parent):
            with other.start_as_current_span("write", kind=SpanKind.PRODUCER):
                pass

    thread = threading.Thread(target=beside)
    thread.start()
    thread.join()
provider.shutdown()
