"""Names with values, of spans and events."""

from dataclasses import dataclass
from typing import Any, Dict, List, Union

from .exceptions import assert_that

AttributeValue = Union[str, bool, int, float, List[Union[str, bool, int, float]]]


@dataclass
class Attribute:
    """A name with a value. Every value is allowed, also lists of several types."""

    name: str
    value: AttributeValue


class Attributes(Dict[str, Attribute]):
    """Attributes by their names, in the order of their first assignment."""

    def __init__(self, dictionary=None):
        super().__init__()
        for name, value in (dictionary or {}).items():
            self.add(name, value)

    def add(self, name, value):
        self[name] = Attribute(name, value)
        return self

    def add_attribute(self, attribute):
        self[attribute.name] = attribute
        return attribute

    def add_attributes(self, other_attributes):
        for attribute in other_attributes.values():
            self.add_attribute(attribute)

    def to_json(self) -> Dict[str, Any]:
        """Returns the values by their names."""
        return {attribute.name: attribute.value for attribute in self.values()}

    @classmethod
    def from_json(cls, data):
        attributes = cls()
        for name, value in (data or {}).items():
            attributes.add(name, value)
        return attributes

    @classmethod
    def merge(cls, attributes=None, other=None):
        """Returns new attributes of this class: those of both, where the later ones replace the
        earlier ones."""
        merged = cls()
        for more in (attributes, other):
            if more:
                merged.add_attributes(more)
        return merged

    def _typed(self, name, kinds, what):
        if name not in self:
            return None
        value = self[name].value
        assert_that(isinstance(value, kinds), "Attribute %s must be %s. Got %s." % (name, what, value))
        return value

    def get_bool_value(self, attribute_name):
        return self._typed(attribute_name, bool, "a boolean")

    def get_int_value(self, attribute_name):
        return self._typed(attribute_name, int, "an integer")

    def get_float_value(self, attribute_name):
        return self._typed(attribute_name, (float, int), "a float")

    def get_str_value(self, attribute_name):
        return self._typed(attribute_name, str, "a string")


def attributes_of(values):
    """Converts a plain dictionary from a program to Attributes."""
    return values if values is None or isinstance(values, Attributes) else Attributes(dict(values))
