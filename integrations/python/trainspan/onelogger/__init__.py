"""one-logger's API by its names. A program for nv-one-logger changes the prefix of its imports,
or calls alias() before them:

    from trainspan.onelogger.api.config import OneLoggerConfig
    from trainspan.onelogger.training_telemetry.api.callbacks import on_app_start, on_train_start

This module also has the names that most programs use. Each call is recorded with its time and
replayed by the reader of the ring buffer, which computes metrics and checkpoint productivity.
Only exporters that the program configures run in its process.
"""

import importlib
import importlib.util
import sys

_PREFIXES = ("nv_one_logger", "one_logger")

# The modules of the names in this module, which loads them at their first use.
_HOMES = {
    "api.config": "LoggerConfig OneLoggerConfig OneLoggerErrorHandlingStrategy",
    "api.one_logger_provider": "OneLoggerProvider",
    "api.timed_span": "get_recorder timed_span",
    "core.attributes": "Attribute Attributes",
    "core.event": "ErrorEvent Event",
    "core.exceptions": "OneLoggerError",
    "core.span": "Span",
    "exporter.exporter": "BaseExporter ExportError Exporter",
    "exporter.file_exporter": "FileExporter",
    "exporter.logger_exporter": "LoggerExporter",
    "recorder.default_recorder": "DefaultRecorder ExportCustomizationMode",
    "training_telemetry.api.callbacks": """on_app_start on_app_end on_distributed_init_start on_distributed_init_end on_model_init_start
        on_model_init_end on_dataloader_init_start on_dataloader_init_end on_load_checkpoint_start on_load_checkpoint_end
        on_optimizer_init_start on_optimizer_init_end on_train_start on_train_end on_training_single_iteration_start
        on_training_single_iteration_end on_validation_start on_validation_end on_validation_single_iteration_start
        on_validation_single_iteration_end on_testing_start on_testing_end on_save_checkpoint_start on_save_checkpoint_success
        on_save_checkpoint_end""",
    "training_telemetry.api.checkpoint": "CheckPointStrategy CheckPointType",
    "training_telemetry.api.config": "TrainingTelemetryConfig",
    "training_telemetry.api.context": """application model_init dataloader_init optimizer_init training_loop training_iteration
        validation_loop validation_iteration testing_loop checkpoint_load checkpoint_save""",
    "training_telemetry.api.spans": "StandardTrainingJobSpanName",
    "training_telemetry.api.training_recorder": "TrainingRecorder",
    "training_telemetry.api.training_telemetry_provider": "TrainingTelemetryBuilder TrainingTelemetryProvider",
}
_home = {name: module for module, names in _HOMES.items() for name in names.split()}
__all__ = [*_home, "alias"]


def __getattr__(name):
    if name not in _home:
        raise AttributeError("module %r has no attribute %r" % (__name__, name))
    value = globals()[name] = getattr(importlib.import_module("%s.%s" % (__name__, _home[name])), name)
    return value


def here(module):
    """Returns our name of a module of the original."""
    prefix, dot, rest = module.partition(".")
    return __name__ + dot + rest if prefix in _PREFIXES else module


class _Alias:
    """Finds the modules of the original here."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in _PREFIXES and importlib.util.find_spec(here(name)) is not None:
            return importlib.util.spec_from_loader(name, _Alias)
        return None

    @staticmethod
    def create_module(spec):
        module = importlib.import_module(here(spec.name))
        spec.loader_state = module.__spec__
        return module

    @staticmethod
    def exec_module(module):
        module.__spec__ = module.__spec__.loader_state  # it is ours, by another name


def alias():
    """Puts these modules under the original's names, nv_one_logger and one_logger, for a
    program that cannot be changed. Raises an error if the original is installed."""
    if _Alias in sys.meta_path:
        return
    for name in _PREFIXES:
        if name in sys.modules or importlib.util.find_spec(name) is not None:
            raise ImportError("%s is installed: uninstall it, or import from %s" % (name, __name__))
    sys.meta_path.insert(0, _Alias)
