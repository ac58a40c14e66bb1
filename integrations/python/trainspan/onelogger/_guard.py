"""Handles errors in telemetry: they are raised, or they end telemetry quietly."""

import functools
import os
import sys

from .. import interrupted
from . import _wire
from .api.config import OneLoggerErrorHandlingStrategy, log
from .api.one_logger_provider import OneLoggerProvider

_folder = os.path.dirname(os.path.abspath(__file__))
_client = os.path.dirname(_folder)

plain = None  # the recorder whose iterations no exporter in this process needs


@_wire.silent
def line():
    """Returns the line of the program that calls telemetry: train.py:12."""
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith(_client) and os.path.basename(path) != "contextlib.py":
            return "%s:%d" % (os.path.basename(path), frame.f_lineno)
        frame = frame.f_back


def active():
    """Returns the recorder of the process, None if nothing is recorded."""
    provider = OneLoggerProvider.instance()
    if not provider.one_logger_enabled:
        return None
    recorder = provider._recorder
    return None if getattr(recorder, "_closed", False) else recorder


def unready(name, said=[]):
    """Reports once that nothing is recorded because the program has configured nothing."""
    if not said and not OneLoggerProvider.instance().one_logger_ready:
        said.append(name)
        log.warning("%s: %s records nothing: call TrainingTelemetryProvider.instance().configure_provider() first", line(), name)


def guarded(f):
    """Wraps f so that it does nothing if telemetry is off, and handles its errors by the
    configuration."""

    @functools.wraps(f)
    def call(*args, **kwargs):
        if active() is None:
            return unready(f.__name__)
        try:
            return f(*args, **kwargs)
        except Exception as e:
            return fault(f.__name__, e)

    return call


def fault(name, error):
    """Handles an error in a function of telemetry. An error from outside, from a signal
    handler, is raised again."""
    if interrupted(error):
        raise error
    provider = OneLoggerProvider.instance()
    if getattr(error, "_told", None) is None:
        where = error._told = line() or "?"
        if not getattr(error, "_forwarded", False):
            _wire.call("telemetry_data_error", message="Exception in telemetry code when calling %s: %s" % (name, error))
        recorder = provider._recorder
        _wire.silent(getattr(recorder, "_data_error", recorder.telemetry_data_error))("Exception in telemetry code when calling %s: %s" % (name, error))
        if provider._config.error_handling_strategy is OneLoggerErrorHandlingStrategy.PROPAGATE_EXCEPTIONS:
            log.error("%s: %s: %s", where, name, error)
    if provider._config.error_handling_strategy is OneLoggerErrorHandlingStrategy.PROPAGATE_EXCEPTIONS:
        raise error
    if not provider._off:
        log.error("%s: %s: %s; telemetry of this process stops, and the program continues", error._told, name, error)
        _wire.silent(provider.force_disable_logging)()
    return None
