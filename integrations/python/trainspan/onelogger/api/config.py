"""The configuration of a program and of its telemetry."""

import logging
import os
from collections.abc import Mapping
from enum import Enum

from .. import _model as m
from .telemetry_config import TelemetryConfig

log = logging.getLogger("trainspan.onelogger")


class OneLoggerErrorHandlingStrategy(Enum):
    """The effect of a telemetry error: it is raised, for programs in development; or it is
    logged once and telemetry ends, so that the training continues."""

    PROPAGATE_EXCEPTIONS = "propagate_exceptions"
    DISABLE_QUIETLY_AND_REPORT_METRIC_ERROR = "disable_quietly_and_report_metric_error"


class LoggerConfig(m.Model):
    """How telemetry logs about itself. Log files are written to the given paths."""

    FIELDS = {
        "log_level": (m.one_of("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"), "INFO"),
        "log_format": (m.text, "%(name)s - %(levelname)s - %(message)s"),
        "log_file_path_for_info": (os.fspath, "onelogger.log"),
        "log_file_path_for_err": (os.fspath, "onelogger.err"),
    }

    def validate_config(self):
        return self

    def apply(self):
        """Configures the logger of telemetry."""
        log.setLevel(self.log_level)
        for field, level in (("log_file_path_for_info", logging.INFO), ("log_file_path_for_err", logging.ERROR)):
            if field in self.model_fields_set:
                handler = logging.FileHandler(getattr(self, field), delay=True)
                handler.setLevel(level)
                handler.setFormatter(logging.Formatter(self.log_format))
                log.addHandler(handler)


def _logger_config(value):
    return value if isinstance(value, LoggerConfig) else LoggerConfig(**value)


def _telemetry_config(value):
    if not isinstance(value, TelemetryConfig):
        raise ValueError("Input should be an instance of TelemetryConfig, such as a TrainingTelemetryConfig")
    return value


class OneLoggerConfig(m.Model):
    """The description of a program. A field that ends in _or_fn takes a value or a function
    without arguments; the attribute without that suffix calls it each time."""

    FIELDS = {
        "application_name": (m.text, m.REQUIRED),
        "world_size_or_fn": (m.or_function(m.whole), m.REQUIRED),
        "session_tag_or_fn": (m.or_function(m.text), m.REQUIRED),
        "is_baseline_run_or_fn": (m.or_function(m.truth), False),
        "custom_metadata": (m.optional(m.metadata), None),
        "error_handling_strategy": (m.member(OneLoggerErrorHandlingStrategy), OneLoggerErrorHandlingStrategy.PROPAGATE_EXCEPTIONS),
        "enable_for_current_rank": (m.truth, True),
        "logger_config": (_logger_config, LoggerConfig()),
        "summary_data_schema_version": (m.text, "1.0.0"),
        "telemetry_config": (m.optional(_telemetry_config), None),
    }

    @classmethod
    def apply_error_handling_defaults(cls, data):
        """Makes errors quiet on a disabled rank, unless the program sets the strategy."""
        if not isinstance(data, Mapping) or "error_handling_strategy" in data or data.get("enable_for_current_rank", True):
            return data
        data = dict(data, error_handling_strategy=OneLoggerErrorHandlingStrategy.DISABLE_QUIETLY_AND_REPORT_METRIC_ERROR)
        logger_config = data.get("logger_config", {})
        if isinstance(logger_config, Mapping):
            data["logger_config"] = dict({"log_level": "CRITICAL"}, **logger_config)
        return data

    def before(self, values):
        return self.apply_error_handling_defaults(values)

    def validate_config(self):
        self.after()
        return self

    def after(self):
        if not self.application_name.strip():
            raise ValueError("application_name cannot be empty or whitespace-only")
        if self.world_size <= 0:
            raise ValueError("world_size must be set to a positive value")
        if any(not key.strip() for key in self.custom_metadata or ()):
            raise ValueError("custom_metadata keys must be non-empty strings")
