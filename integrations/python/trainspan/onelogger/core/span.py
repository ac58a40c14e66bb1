"""Spans: pieces of work with a start and an end."""

import uuid
from enum import Enum
from typing import Union

from ..._enum import StrEnum
from .attributes import Attribute, Attributes, attributes_of
from .event import Event, StandardEventName
from .exceptions import assert_that
from .time import TracingTimestamp, between

SpanName = Union[Enum, str]
KEPT = 1000  # events of an open span that are kept: its first, and the latest


class StandardSpanName(StrEnum):
    """The standard span of every program."""

    APPLICATION = "application"


class StandardSpanAttributeName(StrEnum):
    """The attributes that every span may have."""

    DURATION_MSEC = "duration_msec"
    NVTX_COLOR = "nvtx_color"


class NVTXColor(StrEnum):
    """Colors for NVTX_COLOR."""

    UNSET = "unset"
    GREEN = "green"
    BLUE = "blue"
    YELLOW = "yellow"
    PURPLE = "purple"
    RAPIDS = "rapids"
    CYAN = "cyan"
    RED = "red"
    WHITE = "white"
    DARK_GREEN = "darkgreen"
    ORANGE = "orange"


class Span:
    """A piece of work. Two objects with the same id stand for the same span.

    Attributes that are set on an open span are passed to its recorder by hear(span,
    attributes). Rarely used parts of a span are made at their first use."""

    __slots__ = ("_id", "_name", "_parent_span", "_events", "_initial", "_updated", "_running", "_hear", "_token", "_ref", "_copy", "_failed", "_ended", "_listed", "__weakref__")  # fmt: skip

    # Defaults of the slots.
    _late = {
        "_id": lambda self: uuid.uuid4(),
        "_parent_span": lambda self: None,
        "_events": lambda self: self._known(),
        "_initial": lambda self: Attributes(),
        "_updated": lambda self: type(self._initial)(self._ended and {StandardSpanAttributeName.DURATION_MSEC: self._lasted()}),
        "_running": lambda self: True,
        "_hear": lambda self: None,
        "_token": lambda self: None,
        "_ref": lambda self: None,
        "_copy": lambda self: None,
        "_failed": lambda self: False,
        "_ended": lambda self: None,
        "_listed": lambda self: True,  # its recorder has it among the open spans
    }

    def __getattr__(self, name):
        late = Span._late.get(name)
        if late is None:
            raise AttributeError("%r object has no attribute %r" % (type(self).__name__, name))
        value = late(self)
        setattr(self, name, value)
        return value

    def __init__(self, id, name, start_event, parent_span=None, span_attributes=None):
        assert_that(start_event, "Span %s does not have a start event." % name)
        self._id, self._name, self._parent_span, self._events = id, name, parent_span, [start_event]
        if span_attributes is not None:
            self._initial = attributes_of(span_attributes)

    def _known(self):
        """Returns the events of a span for which only the times in the ring buffer are known."""
        now = TracingTimestamp.now()

        def event(name, at):
            return Event(name, TracingTimestamp(now.seconds_since_epoch - (now.perf_counter_seconds - at), at))

        events = [event(StandardEventName.SPAN_START, self._start() or now.perf_counter_seconds)]
        if self._ended:
            events.append(event(StandardEventName.SPAN_STOP, self._ended / 1e9))
        return events

    def _start(self):
        """Returns its start by the performance counter, 0 if the ring buffer does not have it."""
        return self._token[0] / 1e9 if self._token else 0.0

    def _lasted(self):
        """Returns the milliseconds from the start to the stop."""
        return int(round(between(self._events[0].timestamp, self._events[-1].timestamp) * 1e6)) // 1000

    @property
    def id(self):
        return self._id

    @property
    def name(self):
        return self._name

    @property
    def parent_span(self):
        return self._parent_span

    @property
    def events(self):
        return self._events

    @property
    def attributes(self):
        """Returns the attributes of the start, replaced by those that were set later."""
        return type(self._initial).merge(self._initial, self._updated)

    @property
    def updated_attributes(self):
        return self._updated

    @property
    def name_str(self):
        return str(self._name)

    @property
    def start_event(self):
        return self._events[0]

    @property
    def stop_event(self):
        return None if self._running else self._events[-1]

    @property
    def active(self):
        return self._running

    @classmethod
    def create(cls, name, parent_span=None, span_attributes=None, start_event_attributes=None, start_time=None):
        start = Event(StandardEventName.SPAN_START, start_time or TracingTimestamp.now(), start_event_attributes)
        return cls(uuid.uuid4(), name, start, parent_span, span_attributes)

    def stop(self, stop_event_attributes=None, stop_time=None):
        """Stops the span. A stopped span does not change."""
        if not self._running:
            return
        start = self.start_event.timestamp
        at = stop_time or TracingTimestamp.now()
        if at.seconds_since_epoch < start.seconds_since_epoch:
            at = start  # the clock was set back
        self.add_event(Event(StandardEventName.SPAN_STOP, at, stop_event_attributes))
        self._hear = None
        self.add_attribute(StandardSpanAttributeName.DURATION_MSEC, self._lasted())
        self._running = False

    def add_event(self, event):
        assert_that(self._running, "Cannot add an event to a span that is not running.")
        events = self._events
        events.append(event)
        if len(events) > KEPT:
            del events[1]
        return event

    def add_attribute(self, name, value):
        attribute = Attribute(name, value)
        self.add_attributes(Attributes().add(name, value))
        return attribute

    def add_attributes(self, attributes):
        attributes = attributes_of(attributes)
        self._updated.update(attributes)
        if self._hear is not None:
            self._hear(self, attributes)

    def to_json(self):
        data = {"name": self.name_str, "id": self.id, "events": [event.to_json() for event in self._events]}
        if self.attributes:
            data["attributes"] = self.attributes.to_json()
        return data

    @classmethod
    def from_json(cls, data):
        assert_that(data, "Span data must be a dictionary")
        assert_that(data.get("name") and data.get("id"), "Span must have a name and an id: %s" % (data,))
        assert_that(isinstance(data.get("events"), list) and data["events"], "Span must have a start event: %s" % (data,))
        events = [Event.from_json(event) for event in data["events"]]
        span = cls(data["id"], data["name"], events[0], None, Attributes.from_json(data.get("attributes")))
        for event in events[1:]:
            span.add_event(event)
        if events[-1].name == StandardEventName.SPAN_STOP:
            span._running = False
        return span

    def duration_msec(self):
        assert_that(not self._running, "Span %s is still active." % self._name)
        return self.attributes.get_int_value(StandardSpanAttributeName.DURATION_MSEC)

    def __eq__(self, other):
        return self is other or isinstance(other, Span) and self._id == other._id

    def __hash__(self):
        return hash(self._id)

    def __repr__(self):
        return "<Span %s %s>" % (self._name, "active" if self._running else "stopped")
