"""Exporters from a file, the environment, or installed packages."""

import importlib
import json
import logging
import os
from importlib.metadata import entry_points
from pathlib import Path

from ..recorder.default_recorder import ExportCustomizationMode  # noqa: F401 - older programs import it here
from .exporter_config import ExporterConfig

log = logging.getLogger("trainspan.onelogger")

ENVIRONMENT = "ONE_LOGGER_EXPORTER_CONFIG_PATH"
FILES = ("one_logger_exporters_config.yaml", "one_logger_exporters_config.yml", "one_logger_exporters_config.json")


class ExporterConfigManager:
    """Determines the configured exporters and makes them. Of the sources installed packages, a
    file, and the program, later ones take precedence: a file replaces the packages' entries,
    and the program's entries are merged with those of the same class. Entries that cannot be
    read or made are left out, with a warning."""

    ENTRY_POINT_NAME = "nv_one_logger.exporter_configs"

    def __init__(self):
        self.entry_point_exporter_configs = {}
        try:
            found = entry_points()
            found = found.select(group=self.ENTRY_POINT_NAME) if hasattr(found, "select") else found.get(self.ENTRY_POINT_NAME, ())
            for point in found:
                try:
                    self.entry_point_exporter_configs[point.name] = point.load()
                except Exception as e:
                    log.warning("Failed to load exporter config %s: %s", point.name, e)
        except Exception as e:
            log.warning("Failed to load exporter configurations: %s", e)

    def generate_export_config(self, direct_config=None, config_file_path=None):
        configs = self._of_file(config_file_path)
        if configs is None:
            configs = self._of_packages()
        merged = {config.class_name: config for config in configs}
        for config in _configs(direct_config or ()):
            under = merged.get(config.class_name)
            merged[config.class_name] = ExporterConfig(config.class_name, dict(under.config if under else {}, **config.config), config.enabled)
        return list(merged.values())

    def create_exporters_from_config(self, exporters_config, training_telemetry_config=None):
        made = [self._create(config) for config in exporters_config if config.enabled]
        return [exporter for exporter in made if exporter is not None]

    def _of_packages(self):
        configs = []
        for name, package in self.entry_point_exporter_configs.items():
            try:
                configs += _configs([package.get_default_config()])
            except Exception as e:
                log.warning("Failed to get default config for %s: %s", name, e)
        return configs

    def _of_file(self, path):
        places = [path, os.environ.get(ENVIRONMENT)] + [os.path.join(os.getcwd(), name) for name in FILES]
        found = next((Path(place) for place in places if place and os.path.exists(place)), None)
        if found is None:
            if path:
                log.warning("Failed to load config file %s: it does not exist", path)
            return None
        try:
            text = found.read_text(encoding="utf-8")
            if found.suffix.lower() == ".json":
                data = json.loads(text)
            elif found.suffix.lower() in (".yaml", ".yml"):
                import yaml  # type: ignore[import-untyped]

                data = yaml.safe_load(text)
            else:
                log.warning("Unsupported config file format: %s", found.suffix)
                return None
            if not isinstance(data, dict) or not isinstance(data.get("exporters"), list):
                log.warning("Invalid config file format: expected dict with 'exporters' key")
                return None
            return _configs(data["exporters"])
        except Exception as e:
            log.warning("Failed to load config file %s: %s", found, e)
            return None

    def _create(self, config):
        try:
            return _class(config.class_name)(**{k: Path(v) if k == "file_path" else v for k, v in config.config.items()})
        except Exception as e:
            log.warning("Failed to create exporter %s: %s", config.class_name, e)
            return None


def _configs(given):
    return [c if isinstance(c, ExporterConfig) else ExporterConfig(c["class_name"], c.get("config", {}), c.get("enabled", True)) for c in given]


def _class(name):
    """Returns a class by its name, ours for those of the original."""
    from .. import here

    module, _, name = name.rpartition(".")
    return getattr(importlib.import_module(here(module)), name)
