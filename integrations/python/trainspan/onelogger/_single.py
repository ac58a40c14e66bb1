"""Classes that have one object in a process."""

from typing import Any


class Single(type):
    """The metaclass of a class with one object, which instance() creates and returns."""

    def __call__(cls, *args, **kwargs):
        raise TypeError("%s cannot be instantiated directly. Use %s.instance()." % (cls.__name__, cls.__name__))

    def instance(cls) -> Any:
        one = cls.__dict__.get("_one")
        if one is None:
            one = cls._one = type.__call__(cls)
        return one
