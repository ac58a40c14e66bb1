"""Records as lines of a file."""

import json
import os

from ... import plain
from .base_json_exporter import BaseJsonExporter
from .exporter import ExportError

_encode = json.JSONEncoder(separators=(",", ":"), default=plain).encode


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
        number = 0
        while True:
            try:
                return open(path, "x", encoding="ascii")
            except FileExistsError:
                if not os.path.isfile(path) or not os.path.getsize(path):
                    return open(path, "a", encoding="ascii")  # a pipe or a device, or an empty file
            number += 1
            stem, ext = os.path.splitext(path)
            try:
                os.link(path, "%s.run%d%s" % (stem, number, ext))
                os.unlink(path)
            except (FileExistsError, FileNotFoundError):
                pass  # the name is in use, or another rank was faster

    def _write(self, json_dict):
        if self._file is None:
            raise ExportError("File exporter not initialized or already closed!")
        self._file.write(_encode(json_dict) + "\n")
        self._file.flush()
