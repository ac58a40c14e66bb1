"""Enums whose members are text, on every Python."""

import enum


class StrEnum(str, enum.Enum):
    """An enum of texts: a member is, and prints as, its value."""

    __str__ = str.__str__
    __format__ = str.__format__  # type: ignore[assignment]
