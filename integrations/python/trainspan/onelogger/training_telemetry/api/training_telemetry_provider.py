"""Configures the telemetry of a training, and returns its recorder."""

import json
from collections.abc import Mapping
from pathlib import Path

from .... import _ring
from ... import _wire
from ..._guard import guarded
from ..._model import Model
from ..._single import Single
from ...api.config import OneLoggerConfig, log
from ...api.one_logger_provider import OneLoggerProvider
from ...core.exceptions import OneLoggerError, assert_that
from ...exporter.export_config_manager import ExporterConfigManager
from ...recorder.default_recorder import ExportCustomizationMode
from .config import TrainingTelemetryConfig
from .spans import DEFAULT_SPANS_EXPORT_BLACKLIST
from .training_recorder import TrainingRecorder

NOTHING = "No configuration was provided. Please provide a base config and/or config overrides."


def _lay(over, under):
    """Merges a partial configuration into another one, dictionaries recursively."""
    for key, value in over.items():
        if isinstance(value, Mapping):
            old = under.get(key)
            value = _lay(value, dict(old) if isinstance(old, Mapping) else {})
        under[key] = value
    return under


def _building(f):
    """Decorates a step of the configuration, which ends with configure_provider."""

    def step(self, *args, **kwargs):
        if self._done:
            raise OneLoggerError("%s can be called only before configure_provider is called." % f.__name__)
        f(self, *args, **kwargs)
        return self

    step.__name__, step.__doc__, step.__wrapped__ = f.__name__, f.__doc__, f
    return step


class TrainingTelemetryProvider(metaclass=Single):
    """The telemetry of the process's training: TrainingTelemetryProvider.instance(). Its with_
    methods set the options, configure_provider creates it, once."""

    def __init__(self):
        self._base, self._over, self._exporters, self._mode, self._names, self._done = None, {}, [], None, None, False

    @_building
    def with_base_config(self, one_logger_config):
        """Sets the configuration, once."""
        if self._base is not None:
            raise OneLoggerError("You can only call with_base_config once")
        self._base = one_logger_config

    @_building
    def with_config_override(self, partial_config):
        """Merges a partial configuration into the base and earlier overrides."""
        _lay(partial_config, self._over)

    @_building
    def with_config_override_from_json_file(self, file_path):
        """Merges a partial configuration from a JSON file, as with_config_override does."""
        try:
            config = json.loads(Path(file_path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as e:
            raise OneLoggerError("cannot read the configuration in %s: %s" % (file_path, e)) from e
        assert_that(isinstance(config, dict), "the configuration in %s is not an object" % file_path)
        _lay(config, self._over)

    @_building
    def with_config_override_from_config_server(self, config_server_url):
        raise NotImplementedError("there is no configuration server: use with_config_override or with_config_override_from_json_file")

    @_building
    def with_exporter(self, exporter):
        """Adds an exporter."""
        self._exporters.append(exporter)

    @_building
    def with_export_customization(self, export_customization_mode, span_name_filter):
        """Sets which spans are exported, once: the meaning of names depends on the mode."""
        if self._mode is not None or self._names is not None:
            raise OneLoggerError("You can only call with_export_customization once")
        if isinstance(export_customization_mode, str):
            export_customization_mode = ExportCustomizationMode[export_customization_mode]
        self._mode, self._names = export_customization_mode, span_name_filter

    @_building
    def with_export_config(self, exporters_config=None, config_file_path=None):
        """Adds exporters from a file, the environment or these entries."""
        manager = ExporterConfigManager()
        configs = manager.generate_export_config(exporters_config, config_file_path)
        self._exporters += manager.create_exporters_from_config(configs, self._build())

    def configure(self, config, exporters=()):
        """Sets a configuration and exporters, and creates the provider: the short form."""
        self.with_base_config(flat(config))
        for exporter in exporters:
            self.with_exporter(exporter)
        self.configure_provider()
        return self

    def configure_provider(self):
        if self._done:
            raise OneLoggerError("You can only call configure_provider once per application.")
        config = self._build()
        mode, names = self._mode or ExportCustomizationMode.BLACKLIST_SPANS, self._names
        if mode is ExportCustomizationMode.BLACKLIST_SPANS and names is None:
            names = DEFAULT_SPANS_EXPORT_BLACKLIST
        on = config.enable_for_current_rank
        recorder = TrainingRecorder(config, list(self._exporters) if on else [], mode, names)
        OneLoggerProvider.instance().configure(config, recorder)
        self._done = True
        if on:
            _ring.configure(_wire.FOLDER, True)
            _wire.configured(lambda: _wire.call("configure_provider", **_told(config, self._mode, self._names)))
            recorder.find_plain()
        else:
            OneLoggerProvider.instance().force_disable_logging()

    def _build(self):
        if self._base is None and not self._over:
            raise OneLoggerError(NOTHING)
        values = {} if self._base is None else self._base.model_dump()
        if self._base is not None:  # log files are written to the paths from the program
            logger = self._base.logger_config
            values["logger_config"] = {name: getattr(logger, name) for name in logger.model_fields_set}
        values = _lay(self._over, values)
        training = values.get("telemetry_config")
        if isinstance(training, dict):
            values["telemetry_config"] = TrainingTelemetryConfig(**training)
        try:
            return OneLoggerConfig(**values)
        except Exception as e:
            raise OneLoggerError("Invalid configuration! Did you forget some required fields?: %s" % e) from e

    @property
    def recorder(self):
        recorder = OneLoggerProvider.instance().recorder
        assert_that(isinstance(recorder, TrainingRecorder), "The recorder of the process is not a TrainingRecorder.")
        return recorder

    @property
    def config(self):
        """Returns a copy of the configuration."""
        return OneLoggerProvider.instance().config.model_copy()

    @property
    def one_logger_ready(self):
        return OneLoggerProvider.instance().one_logger_ready

    @property
    def one_logger_enabled(self):
        return OneLoggerProvider.instance().one_logger_enabled

    def force_disable_logging(self):
        OneLoggerProvider.instance().force_disable_logging()

    def set_training_telemetry_config(self, training_telemetry_config):
        """Sets the configuration of a training that was not known at the start, once."""
        config = OneLoggerProvider.instance().config
        if config.telemetry_config is not None:
            raise OneLoggerError("Training telemetry config has already been set.")
        config.telemetry_config = training_telemetry_config
        _update(OneLoggerProvider.instance().recorder, training_telemetry_config)


@guarded
def _update(recorder, config):
    _wire.call("set_training_telemetry_config", **_plain(config))
    recorder.find_plain()
    recorder.late_config(config)


class TrainingTelemetryBuilder:
    """The older way to configure TrainingTelemetryProvider: one configuration describes the
    program and its training."""

    def __init__(self):
        self._provider = TrainingTelemetryProvider.instance()

    def with_base_telemetry_config(self, config):
        self._provider.with_base_config(flat(config))
        return self

    def configure_provider(self):
        self._provider.configure_provider()
        return self._provider

    def __getattr__(self, name):
        step = getattr(self._provider, name)

        def call(*args, **kwargs):
            step(*args, **kwargs)
            return self

        return call if name.startswith("with_") else step


def flat(config):
    """Returns the configuration for an older one, which has one level."""
    if isinstance(config, OneLoggerConfig):
        return config
    base = {k: v for k, v in config._others.items() if k in OneLoggerConfig.FIELDS}
    return OneLoggerConfig(telemetry_config=config, **base)


# The form of a configuration in the ring buffer: a field that is a function has only its name
# there; its result is written when it is known.


def _plain(config):
    values, functions = {}, config.functions()
    for name in config.FIELDS:
        value = getattr(config, name)
        if name in functions:
            value = config.seen().get(name)
        if value is not None and not isinstance(value, Model):
            values[name] = {k: _wire.value(v) for k, v in value.items()} if isinstance(value, dict) else _wire.value(value)
    if functions:
        values["functions"] = functions
    return values


def _told(config, mode, names):
    base = _plain(config)
    if config.telemetry_config is not None and hasattr(config.telemetry_config, "functions"):
        base["telemetry_config"] = _plain(config.telemetry_config)
    told = {"base_config": base}
    if mode is not None:
        told.update(export_customization_mode=mode.name, span_name_filter=[str(n) for n in names or ()])
    return told
