"""Records as messages of a logger."""

import json
import re

from ... import plain
from .base_json_exporter import BaseJsonExporter
from .exporter import ExportError


class LoggerExporter(BaseJsonExporter):
    """Logs each record as [key=value | key=value], with dots in nested keys, the last key
    first."""

    def __init__(self, logger):
        super().__init__()
        self._logger = logger

    def initialize(self):
        super().initialize()

    def _write(self, json_dict):
        self._logger.info(self._format_log(json_dict))

    def _format_log(self, json_dict):
        pairs = []

        def add(values, prefix):
            for key in sorted(values, reverse=True):
                if "." in key:
                    raise ExportError("keys cannot contain dots: %s" % key)
                if isinstance(values[key], dict):
                    add(values[key], prefix + key + ".")
                else:
                    pairs.append("%s%s=%s" % (prefix, key, json.dumps(values[key], default=plain)))

        add(json_dict, "")
        return "[%s]" % " | ".join(pairs) if pairs else ""

    @staticmethod
    def deserialize_log(text):
        """Returns the record of a message."""
        found = re.findall(r"\[(.*)\]", text, re.DOTALL)
        if not found:
            raise ExportError("Log string must be enclosed in square brackets: %s" % text)
        record = {}
        # A separator precedes a key; one inside of quotes does not.
        for key, value in re.findall(r'([\w.-]+)=("(?:[^"\\]|\\.)*"|\[.*?\](?= \| |$)|[^|]*?)(?: \| |\s*\|?\s*$)', found[-1]):
            at = record
            *above, last = key.split(".")
            for name in above:
                at = at.setdefault(name, {})
            try:
                at[last] = json.loads(value)
            except ValueError:
                at[last] = value
        return record
