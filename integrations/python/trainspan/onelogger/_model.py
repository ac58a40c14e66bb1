"""Configuration objects: fields that are validated when the object is made.

A subclass lists its fields in FIELDS, each with its check and its default. A check takes the
given value and returns the stored one, or raises ValueError. The rules are those of pydantic,
which the program need not have: text that is a number is one, and unknown fields are ignored.
If the program has imported pydantic, the error is its ValidationError; else a class with that
name.
"""

import inspect
import sys
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from .core.exceptions import OneLoggerError

REQUIRED = inspect.Parameter.empty


class ValidationError(ValueError):
    """An invalid configuration: a message for each field."""

    def __init__(self, title, errors):
        self.title, self._errors = title, errors
        head = "%d validation error%s for %s" % (len(errors), "s" * (len(errors) != 1), title)
        super().__init__("\n".join([head] + ["%s\n  %s" % (field, text) if field else "  " + text for field, text in errors]))

    def errors(self):
        return [{"loc": (field,) if field else (), "msg": text, "type": "value_error"} for field, text in self._errors]


def invalid(title, errors):
    """Returns the error that the program can catch: pydantic's, if it has imported that."""
    core = sys.modules.get("pydantic_core")
    if core is None:
        return ValidationError(title, errors)
    lines = [
        {"type": core.PydanticCustomError("value_error", "{text}", {"text": text}), "loc": (field,) if field else (), "input": None}
        for field, text in errors
    ]
    return core.ValidationError.from_exception_data(title, lines)


# Checks.


def text(value):
    if isinstance(value, str):
        return value
    raise ValueError("Input should be a valid string")


def numeric(value):
    """Returns whether a value that is not text is a number, as those of numpy are."""
    return hasattr(type(value), "__float__")


def whole(value):
    if isinstance(value, str):
        head, _, zeros = value.strip().partition(".")
        value = value if zeros.strip("0") else head
    elif not numeric(value):
        raise ValueError("Input should be a valid integer")
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # RuntimeError: a tensor of several elements
        raise ValueError("Input should be a valid integer") from None
    if not isinstance(value, str) and number != value:
        raise ValueError("Input should be a valid integer, got a number with a fractional part")
    return number


def truth(value):
    if isinstance(value, str):
        number = {"true": 1, "t": 1, "yes": 1, "y": 1, "on": 1, "1": 1, "false": 0, "f": 0, "no": 0, "n": 0, "off": 0, "0": 0}.get(value.lower())
    else:
        try:
            number = whole(value)
        except ValueError:
            number = None
    if number not in (0, 1):
        raise ValueError("Input should be a valid boolean")
    return bool(number)


def several(value):
    """Returns whether a value is a list of values, of any class."""
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, bytearray, Mapping))


def texts(value):
    return [text(v) for v in value] if several(value) else text(value)


def metadata(value):
    """Checks names with values that an attribute can have."""
    if not isinstance(value, Mapping):
        raise ValueError("Input should be a valid dictionary")
    kept = {}
    for key, item in value.items():
        text(key)
        if not isinstance(item, str) and not numeric(item):
            if not several(item):
                raise ValueError("the value of %r should be a string, a number, a boolean or a list of these" % key)
            item = item if isinstance(item, (list, tuple)) else list(item)
        kept[key] = item
    return kept


def given(value):
    return value


def member(kind):
    """Returns a check for a member of an enum, or its value."""

    def check(value):
        try:
            return kind(value.value if isinstance(value, Enum) else value)
        except ValueError:
            raise ValueError("Input should be %s" % " or ".join(repr(m.value) for m in kind)) from None

    return check


def one_of(*values):
    def check(value):
        if value in values:
            return value
        raise ValueError("Input should be %s" % ", ".join(map(repr, values)))

    return check


def optional(check):
    return lambda value: None if value is None else check(value)


def or_function(check):
    """Returns a check for a value, or a function without arguments that returns one."""
    return lambda value: value if callable(value) else check(value)


class Model:
    """A configuration. Its fields are attributes with the names of FIELDS."""

    FIELDS: dict = {}

    if TYPE_CHECKING:  # the fields

        def __getattr__(self, name: str) -> Any: ...

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.__signature__ = inspect.Signature(
            [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default) for name, (_, default) in cls.FIELDS.items()]
        )
        cls.model_fields = cls.FIELDS
        for name in cls.FIELDS:
            if name.endswith("_or_fn"):
                setattr(cls, name[:-6], property(lambda self, name=name: self._evaluate(name)))

    def __init__(self, **values: Any) -> None:
        values = self.before(values)
        errors = []
        for name, (check, default) in self.FIELDS.items():
            if name not in values:
                if default is REQUIRED:
                    errors.append((name, "Field required"))
                else:
                    self.__dict__[name] = default
                continue
            try:
                self.__dict__[name] = check(values[name])
            except ValueError as e:
                errors.append((name, str(e)))
        self.__dict__["model_fields_set"] = {name for name in self.FIELDS if name in values}
        if not errors:
            try:
                self.after()
            except OneLoggerError:
                raise
            except ValueError as e:
                errors.append(("", "Value error, %s" % e))
        if errors:
            raise invalid(type(self).__name__, errors)

    def before(self, values):
        """Returns the values to check."""
        return values

    def after(self):
        """Raises ValueError if the fields are not consistent."""

    def _evaluate(self, name):
        """Returns the value of a field that may be a function, which is called each time."""
        value = self.__dict__[name]
        if callable(value):
            value = value()
            self.__dict__.setdefault("_seen", {})[name] = value
        return value

    def functions(self):
        """Returns the names of the fields that are functions."""
        return [name for name in self.FIELDS if callable(self.__dict__.get(name))]

    def seen(self):
        """Returns the last results of the functions, by the names of their fields."""
        return self.__dict__.get("_seen", {})

    def model_dump(self):
        return {k: v.model_dump() if isinstance(v, Model) else v for k, v in ((k, self.__dict__[k]) for k in self.FIELDS)}

    dict = model_dump

    def model_copy(self, update=None):
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, **(update or {}))
        return copy

    def __eq__(self, other):
        return type(self) is type(other) and all(self.__dict__[k] == other.__dict__[k] for k in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self):
        return "%s(%s)" % (type(self).__name__, ", ".join("%s=%r" % (k, self.__dict__[k]) for k in self.FIELDS))
