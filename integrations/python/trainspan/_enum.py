"""Enums for every supported version of Python, including those of DFTracer."""

import enum


if hasattr(enum, "StrEnum"):
    StrEnum = enum.StrEnum
else:  # before Python 3.11

    class StrEnum(str, enum.Enum):  # type: ignore[no-redef]
        """An enum of texts: a member equals its value, and prints as its value."""

        __str__ = str.__str__
        __format__ = str.__format__  # type: ignore[assignment]


class TagType(enum.Enum):
    """The use of an argument."""

    KEY, VALUE, IGNORE = range(3)

    def __int__(self):
        return self.value


class TagDType(enum.Enum):
    """The type of an argument."""

    INT, FLOAT, STRING = range(3)

    def __int__(self):
        return self.value
