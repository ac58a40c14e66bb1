"""The contexts and callbacks of a training in the forms in which Python programs use them, and
events by themselves."""

import contextlib
import os
import traceback

from nv_one_logger.api.config import OneLoggerConfig
from nv_one_logger.core.attributes import Attributes
from nv_one_logger.core.event import ErrorEvent, Event, StandardEventName, TelemetryDataError
from nv_one_logger.core.time import TracingTimestamp
from nv_one_logger.exporter.exporter import BaseExporter
from nv_one_logger.training_telemetry.api.callbacks import on_load_checkpoint_end, on_load_checkpoint_start
from nv_one_logger.training_telemetry.api.config import TrainingTelemetryConfig
from nv_one_logger.training_telemetry.api.context import (
    application,
    checkpoint_load,
    checkpoint_save,
    dataloader_init,
    model_init,
    optimizer_init,
    testing_loop,
    training_iteration,
    training_loop,
    validation_iteration,
    validation_loop,
)
from nv_one_logger.training_telemetry.api.training_telemetry_provider import TrainingTelemetryProvider

try:
    from overrides import override  # the original requires it
except ImportError:

    def override(method):
        return method


said, shown = [], []  # the calls of the exporter, and the results of the program


class Kept(BaseExporter):
    """Stores its calls."""

    @override
    def export_start(self, span):
        said.append("start %s below %s" % (span.name_str, span.parent_span and span.parent_span.name_str))

    @override
    def export_stop(self, span):
        said.append("stop %s active=%s" % (span.name_str, span.active))

    @override
    def export_event(self, event, span):
        said.append("event %s of %s" % (event.name_str, span.name_str))

    @override
    def export_error(self, event, span):
        said.append("error of %s: %r %s" % (span.name_str, event.error_message, event.exception_type))

    @override
    def export_telemetry_data_error(self, error):
        said.append("gap %s" % error.error_message)


def show(title, f, *args):
    try:
        shown.append("%s gives %r" % (title, f(*args)))
    except BaseException as e:
        frames = [(os.path.basename(frame.filename), frame.name) for frame in traceback.extract_tb(e.__traceback__)]
        ours = [name for file, name in frames if file == os.path.basename(__file__)]
        shown.append("%s raises %s(%s) through %s" % (title, type(e).__name__, e, ours))


training = TrainingTelemetryConfig(
    is_train_iterations_enabled_or_fn=True,
    is_validation_iterations_enabled_or_fn=True,
    is_save_checkpoint_enabled_or_fn=True,
    global_batch_size_or_fn=8,
    perf_tag_or_fn="perf",
    log_every_n_train_iterations=1,
    train_iterations_target_or_fn=4,
    train_samples_target_or_fn=32,
)
config = OneLoggerConfig(application_name="app", session_tag_or_fn="tag", world_size_or_fn=1, telemetry_config=training)
TrainingTelemetryProvider.instance().with_base_config(config).with_exporter(Kept()).configure_provider()


def starting():
    with model_init() as model:
        return model.name_str, model.parent_span is app


def training_runs(fail_at=None):
    with training_loop(train_iterations_start=0) as loop:
        for i in range(3):
            with training_iteration() as iteration:
                pass
            if i == fail_at:
                raise ValueError("after %d" % i)
        with validation_loop():
            for _ in range(2):
                with validation_iteration():
                    pass
        with checkpoint_save(global_step=3):
            pass
        return loop.name_str, iteration.name_str


@model_init()
def build(x):
    """A text."""
    if not x:
        raise ValueError("nothing to build")
    return x


@training_iteration()
def step(i):
    return i


def stacked():
    with contextlib.ExitStack() as stack:
        return [stack.enter_context(c).name_str for c in (dataloader_init(), optimizer_init())]


def decorated():
    built = [build(1), build(2)]
    with training_loop(train_iterations_start=0):
        return built, [step(i) for i in range(2)], build.__name__, build.__doc__


def decorated_raises():
    return build(0)


def suppressed():
    with contextlib.suppress(KeyError), checkpoint_load():
        raise KeyError("k")


def exits():
    with testing_loop():
        raise SystemExit(3)


def by_callbacks():
    span = on_load_checkpoint_start()
    on_load_checkpoint_end()
    return span.name_str, span.active


def generator():
    with testing_loop():
        yield 1


def left():
    g = generator()
    value = next(g)
    g.close()
    return value


def events():
    attributes = Attributes({"a": 1})
    now = TracingTimestamp.now()
    event, other = Event.create("x", attributes, now), Event.create("x", attributes, now)
    return event.name, event.name_str, event.attributes.get("a"), event.timestamp == now, event == other, event.to_json().keys()


def event_of_a_member():
    return Event.create(StandardEventName.SPAN_START).name_str


def error_event():
    try:
        raise ValueError("v")
    except ValueError as e:
        event = ErrorEvent.create("message", e)
        texts = sorted(str(getattr(k, "value", k)) for k in event.attributes if str(getattr(k, "value", k)) != "timestamp_msec")
        return event.name_str, event.error_message, event.exception_type, event.exception_message, "ValueError: v" in event.exception_traceback, texts


def error_event_alone():
    event = ErrorEvent.create("message")
    return event.error_message, event.exception_type, event.exception_message, event.exception_traceback


def error_events_with_a_traceback():
    event = ErrorEvent.create("message", KeyError("k"), "a text")
    return event.exception_type, event.exception_message, event.exception_traceback, event == ErrorEvent.from_json(event.to_json())


def data_error():
    event = TelemetryDataError.create(TelemetryDataError.ErrorType.INCOMPLETE_TELEMETRY_DATA, "gone", Attributes({"a": 1}))
    return event.name_str, event.error_type.value, event.error_message, event.attributes.get("a")


app = application()
app.__enter__()
show("starting", starting)
show("training", training_runs)
show("training raises", training_runs, 1)
show("stacked", stacked)
show("decorated", decorated)
show("decorated raises", decorated_raises)
show("suppressed", suppressed)
show("exit", exits)
show("callbacks", by_callbacks)
show("generator", lambda: list(generator()))
show("left", left)
show("event", events)
show("event of a member", event_of_a_member)
show("error", error_event)
show("error alone", error_event_alone)
show("error with a traceback", error_events_with_a_traceback)
show("data error", data_error)
app.__exit__(None, None, None)
print("\n".join(said + shown))
