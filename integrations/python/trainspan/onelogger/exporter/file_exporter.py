"""Records as lines of a file."""

import itertools
import json
import os

from ... import plain
from .base_json_exporter import BaseJsonExporter
from .exporter import ExportError

_encode = json.JSONEncoder(separators=(",", ":"), default=plain).encode


def _append(path, flags):
    """Opens a file to which another rank may append too."""
    return os.open(path, flags | os.O_APPEND, 0o666)


class FileExporter(BaseJsonExporter):
    """Writes a line of JSON for each record. It keeps an existing file of an earlier run or of
    another rank: it renames it to the next free name, telemetry.run1.json."""

    def __init__(self, file_path):
        super().__init__()
        self._filepath, self._file = file_path, None

    def initialize(self):
        super().initialize()
        self._file = self._open_file()

    def close(self):
        if self._file is not None:
            super().close()
            with self._lock:
                self._file.close()
                self._file = None

    def _open_file(self):
        path = os.fspath(self._filepath)
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        stem, ext = os.path.splitext(path)
        for number in itertools.count(1):
            try:
                return open(path, "x", encoding="ascii", opener=_append)
            except FileExistsError:
                pass
            try:
                if not os.path.isfile(path) or not os.path.getsize(path):
                    return open(path, "a", encoding="ascii")  # a pipe or a device, or an empty file
                kept = "%s.run%d%s" % (stem, number, ext)
                os.close(os.open(kept, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))  # another rank cannot take the name
            except (FileExistsError, FileNotFoundError):
                continue  # the name is in use, or another rank was faster
            try:
                os.replace(path, kept)
            except FileNotFoundError:  # another rank was faster
                os.unlink(kept)

    def _write(self, json_dict):
        if self._file is None:
            raise ExportError("File exporter not initialized or already closed!")
        self._file.write(_encode(json_dict) + "\n")
        self._file.flush()
