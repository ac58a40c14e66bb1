"""Events during a span."""

import traceback
from enum import Enum
from typing import Union

from ..._enum import StrEnum
from .attributes import Attributes, attributes_of
from .exceptions import assert_that
from .time import TracingTimestamp

EventName = Union[Enum, str]


class StandardEventName(StrEnum):
    """The events that spans of all kinds have."""

    SPAN_START = "span_start"
    SPAN_STOP = "span_stop"
    ERROR = "error"
    TELEMETRY_DATA_ERROR = "telemetry_data_error"


class StandardEventAttributeName(StrEnum):
    """The attributes of these events."""

    TIMESTAMP_MSEC = "timestamp_msec"
    ERROR_MESSAGE = "error_message"
    EXCEPTION_TYPE = "exception_type"
    EXCEPTION_MESSAGE = "exception_message"
    EXCEPTION_TRACEBACK = "exception_traceback"
    TELEMETRY_DATA_ERROR_TYPE = "telemetry_data_error_type"


_TIME = str(StandardEventAttributeName.TIMESTAMP_MSEC)


class Event:
    """A name, a time and attributes, one of which is the time in milliseconds. It copies the
    given attributes."""

    def __init__(self, name, timestamp, attributes=None):
        assert_that(timestamp, "Event %s must have a valid timestamp" % name)
        self._name, self._timestamp = name, timestamp
        attributes = attributes_of(attributes)
        self._attributes = Attributes() if attributes is None else type(attributes).merge(attributes)
        self._attributes.add(StandardEventAttributeName.TIMESTAMP_MSEC, timestamp.milliseconds_since_epoch)

    @classmethod
    def deferred(cls, name, kind, values):
        """Returns an event of the current time whose attributes kind.create(**values) creates
        when they are first read: in the thread of the exporters, not in the training thread.
        values has all that are required, in the order of the table."""
        event = object.__new__(cls)
        event._name, event._timestamp, event._make = name, TracingTimestamp.now(), (kind, values)
        return event

    def _values(self):
        """Returns the values of the attributes by their names, as to_json does, without creating
        those of a deferred event."""
        if "_attributes" in self.__dict__:
            return self._attributes.to_json()
        found = {name: value for name, value in self._make[1].items() if value is not None}
        found[_TIME] = self._timestamp.milliseconds_since_epoch
        return found

    def __getattr__(self, name):
        if name != "_attributes" or "_make" not in self.__dict__:
            raise AttributeError("%r object has no attribute %r" % (type(self).__name__, name))
        kind, values = self._make
        self._attributes = made = kind.create(**values).add(StandardEventAttributeName.TIMESTAMP_MSEC, self._timestamp.milliseconds_since_epoch)
        return made

    @property
    def name(self):
        return self._name

    @property
    def timestamp(self):
        return self._timestamp

    @property
    def attributes(self):
        return self._attributes

    @property
    def name_str(self):
        return self._name.value if isinstance(self._name, Enum) else self._name

    @classmethod
    def create(cls, name, attributes=None, timestamp=None):
        return cls(name, TracingTimestamp.now() if timestamp is None else timestamp, attributes)

    def to_json(self):
        return {"name": self.name_str, "timestamp": self._timestamp.to_json(), "attributes": self._attributes.to_json()}

    @classmethod
    def from_json(cls, data):
        assert_that(data, "Event data must be a dictionary")
        assert_that(data.get("name") and data.get("timestamp"), "Event must have a name and a timestamp: %s" % (data,))
        if data["name"] == StandardEventName.ERROR:
            return ErrorEvent.from_json(data)
        return Event(data["name"], TracingTimestamp.from_json(data["timestamp"]), Attributes.from_json(data.get("attributes")))

    def _key(self):
        return (self._name, self._timestamp)

    def __eq__(self, other):
        return isinstance(other, type(self)) and self._key() == other._key() and self._attributes == other._attributes

    def __hash__(self):
        return hash(self._key())


class ErrorEvent(Event):
    """An error of the program: a message, and the exception if there was one."""

    def __init__(self, timestamp, error_message, exception_type=None, exception_message=None, exception_traceback=None, attributes=None):  # fmt: skip
        self.error_message, self.exception_type = error_message, exception_type
        self.exception_message, self.exception_traceback = exception_message, exception_traceback
        every = Attributes({StandardEventAttributeName.ERROR_MESSAGE: error_message})
        if exception_type:
            every.add(StandardEventAttributeName.EXCEPTION_TYPE, exception_type)
            every.add(StandardEventAttributeName.EXCEPTION_MESSAGE, exception_message or "")
            if exception_traceback:
                every.add(StandardEventAttributeName.EXCEPTION_TRACEBACK, exception_traceback)
        if attributes:
            every.add_attributes(attributes_of(attributes))
        super().__init__(StandardEventName.ERROR, timestamp, every)
        if exception_type is not None and exception_traceback is None:
            self.exception_traceback = traceback.format_exc()  # not an Attribute, as in the original

    @classmethod
    def create(cls, error_message, exception=None, exception_traceback=None):
        if exception is None:
            return cls(TracingTimestamp.now(), error_message, None, None, exception_traceback)
        event = cls(TracingTimestamp.now(), error_message, type(exception).__name__, str(exception), exception_traceback)
        if exception_traceback is None:
            event.exception_traceback = "".join(traceback.format_exception(type(exception), exception, exception.__traceback__))
        return event

    def to_json(self):
        """Returns the event as JSON, with the data of the exception."""
        known = {"error_message": self.error_message, "exception_type": self.exception_type,
                 "exception_message": self.exception_message, "exception_traceback": self.exception_traceback}  # fmt: skip
        return dict(super().to_json(), **{k: v for k, v in known.items() if v is not None or k == "error_message"})

    @classmethod
    def from_json(cls, data):
        return cls(
            TracingTimestamp.from_json(data["timestamp"]), data["error_message"], data.get("exception_type"), data.get("exception_message"),
            data.get("exception_traceback"), Attributes.from_json(data.get("attributes")),
        )  # fmt: skip


class TelemetryDataError(Event):
    """The data of this run has a gap, or is missing."""

    class ErrorType(StrEnum):
        """How much of the data is available."""

        NO_TELEMETRY_DATA = "no_telemetry_data"
        INCOMPLETE_TELEMETRY_DATA = "incomplete_telemetry_data"

    def __init__(self, timestamp, error_type, error_message, attributes=None):
        self.error_type, self.error_message = error_type, error_message
        every = Attributes({
            StandardEventAttributeName.ERROR_MESSAGE: error_message,
            StandardEventAttributeName.TELEMETRY_DATA_ERROR_TYPE: error_type.value,
        })  # fmt: skip
        if attributes:
            every.add_attributes(attributes_of(attributes))
        super().__init__(StandardEventName.TELEMETRY_DATA_ERROR, timestamp, every)

    @classmethod
    def create(cls, error_type, error_message, attributes=None):
        return cls(TracingTimestamp.now(), error_type, error_message, attributes)

    def to_json(self):
        return dict(super().to_json(), error_type=self.error_type.value, error_message=self.error_message)

    @classmethod
    def from_json(cls, data):
        return cls(
            TracingTimestamp.from_json(data["timestamp"]), cls.ErrorType(data["error_type"]), data["error_message"],
            Attributes.from_json(data.get("attributes")),
        )  # fmt: skip
