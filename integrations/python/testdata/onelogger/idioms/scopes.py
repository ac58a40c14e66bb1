"""Contexts in the forms in which Python programs use them, and the frames of their exceptions."""

import contextlib
import os
import traceback

from nv_one_logger.api.config import OneLoggerConfig
from nv_one_logger.api.one_logger_provider import OneLoggerProvider
from nv_one_logger.api.timed_span import get_recorder, timed_span
from nv_one_logger.core.attributes import Attributes
from nv_one_logger.core.event import Event
from nv_one_logger.exporter.exporter import BaseExporter
from nv_one_logger.recorder.default_recorder import DefaultRecorder

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
        parent = span.parent_span
        said.append("start %s below %s %s" % (span.name, parent and parent.name, sorted((str(k), v.value if hasattr(v, "value") else v) for k, v in span.attributes.items())))

    @override
    def export_stop(self, span):
        said.append("stop %s active=%s" % (span.name, span.active))

    @override
    def export_event(self, event, span):
        said.append("event %s of %s" % (event.name, span.name))

    @override
    def export_error(self, event, span):
        said.append("error of %s: %r %s %s" % (span.name, event.error_message, event.exception_type, event.exception_message))

    @override
    def export_telemetry_data_error(self, error):
        said.append("gap %s" % error.error_message)

config = OneLoggerConfig(application_name="app", session_tag_or_fn="tag", world_size_or_fn=1)
OneLoggerProvider.instance().configure(config, DefaultRecorder([Kept()]))


def show(title, f, *args):
    try:
        shown.append("%s gives %r" % (title, f(*args)))
    except BaseException as e:
        frames = [(os.path.basename(frame.filename), frame.name) for frame in traceback.extract_tb(e.__traceback__)]
        ours = [name for file, name in frames if file == os.path.basename(__file__)]
        shown.append("%s raises %s(%s) from %r through %s" % (title, type(e).__name__, e, e.__cause__ or e.__context__, ours))


def plain():
    with timed_span("plain", span_attributes=Attributes({"a": 1}), start_event_attributes=Attributes({"b": 2})) as span:
        return span.active


def nested():
    with timed_span("outer") as outer, timed_span("inner") as inner:
        get_recorder().event(inner, Event.create("happened"))
        return outer is inner.parent_span


def raises(error):
    with timed_span("raises"):
        raise error


def stack():
    with contextlib.ExitStack() as stack:
        spans = [stack.enter_context(timed_span("stack%d" % i)) for i in range(2)]
        return [span.name for span in spans]


def stack_raises():
    with contextlib.ExitStack() as stack:
        stack.enter_context(timed_span("below"))
        raise KeyError("k")


def suppressed():
    with contextlib.suppress(KeyError), timed_span("suppressed"):
        raise KeyError("k")


@timed_span("decorated", Attributes({"a": 1}))
def decorated(x):
    """A text."""
    return x if x else raises(ValueError("in it"))


def method():
    class Model:
        @timed_span(name="method")
        def forward(self, x):
            return x

        @staticmethod
        @timed_span(name="static")
        def static(x):
            return x

        @classmethod
        @timed_span(name="class")
        def made(cls, x):
            return x

    return Model().forward(1), Model.static(2), Model.made(3)


def recursive(n=2):
    with timed_span("recursive"):
        return n and recursive(n - 1)


def generator():
    with timed_span("generator"):
        yield 1
        yield 2


def left():
    g = generator()
    value = next(g)
    g.close()
    return value


def stop_iteration():
    with timed_span("stops"):
        raise StopIteration("mine")


def returned():
    for i in range(3):
        with timed_span("turn"):
            if i == 1:
                continue
            if i == 2:
                break
    return i


def other_one():
    """Raises an exception that replaces another one."""
    try:
        raises(KeyError("first"))
    except KeyError:
        raises(ValueError("second"))


def grouped():
    """Raises one exception object twice."""
    error = ValueError("again")
    for _ in range(2):
        try:
            raises(error)
        except ValueError:
            pass
    raise error


def entered_by_hand():
    context = timed_span("by hand")
    span = context.__enter__()
    return span.name, context.__exit__(None, None, None) or False


show("plain", plain)
show("nested", nested)
show("raises", raises, ValueError("x"))
show("exit", raises, SystemExit(3))
show("stack", stack)
show("stack raises", stack_raises)
show("suppressed", suppressed)
show("decorated", decorated, 1)
show("decorated again", decorated, 2)
show("decorated raises", decorated, 0)
show("names", lambda: (decorated.__name__, decorated.__doc__, decorated.__wrapped__.__name__))
show("method", method)
show("recursive", recursive)
show("generator", lambda: list(generator()))
show("left", left)
show("stop iteration", stop_iteration)
show("turns", returned)
show("another", other_one)
show("twice", grouped)
show("by hand", entered_by_hand)
show("is a context", lambda: (isinstance(timed_span("x"), contextlib.AbstractContextManager), isinstance(timed_span("x"), contextlib.ContextDecorator)))
get_recorder().close()
print("\n".join(said + shown))
