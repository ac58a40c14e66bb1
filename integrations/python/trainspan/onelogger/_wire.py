"""Writes each call with its arguments, and the spans of the trace, to the ring buffer for the
recorder that reads it.

A span is identified by its name if a callback started it, else by its number."""

import functools
import itertools
import os

from .. import _ring, interrupted, plain
from .core.span import StandardSpanAttributeName

# The span of each pair of callbacks: its category and name in traces.
TRACED = {
    "app": ("ai_root", "ai_root"), "distributed_init": ("comm", "comm.init"), "model_init": ("compute", "compute.init"),
    "dataloader_init": ("dataloader", "dataloader.init"), "optimizer_init": ("compute", "step.init"),
    "load_checkpoint": ("checkpoint", "restart"), "train": ("pipeline", "train"),
    "training_single_iteration": ("pipeline", "train.iteration"), "validation": ("pipeline", "evaluate"),
    "validation_single_iteration": ("pipeline", "evaluate.iteration"), "testing": ("pipeline", "test"),
    "save_checkpoint": ("checkpoint", "capture"), "save_checkpoint_async": ("checkpoint", "capture.async"),
}  # fmt: skip
FOLDER = "./one_logger"  # folder of the ring buffer without `trainspan run`

numbers = itertools.count(1).__next__


def silent(f):
    """Wraps f so that it returns None instead of raising, except for errors of code that
    interrupts it."""

    @functools.wraps(f)
    def call(*args, **kwargs):
        try:
            return f(*args, **kwargs)
        except Exception as e:
            if interrupted(e):
                raise
            return None

    return call


def name(key):
    cat, name = TRACED[key]
    return _ring.name(name, cat, _ring.CALLED)


def value(v):
    """Converts a value of an attribute for JSON."""
    if isinstance(v, (list, tuple)):
        return [value(item) for item in v[:128]]
    return v if v is None or isinstance(v, bool) else getattr(v, "value", plain(v))


def values(attributes):
    return {str(k): value(v) for k, v in attributes.to_json().items()} if attributes else {}


def nanoseconds(at):
    """Returns a time of the wall clock in nanoseconds, None for now."""
    return None if at is None else int(round(at.seconds_since_epoch * 1e6)) * 1000


def milliseconds(at):
    return round(at.seconds_since_epoch * 1e3, 6)


_configure = _again = None  # writes the configuration; the same in a forked process that has not yet written it


def configured(write):
    """Calls write, which writes the configuration, now and before the first call in a forked
    process: its ring buffer is another one."""
    global _configure
    _configure = write
    write()


def _child():
    global _again
    _again = _configure


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_child)


@silent
def call(callback, **args):
    """Records a call, without arguments that are None."""
    global _again
    if _again is not None:
        write, _again = _again, None
        write()
    _ring.call(callback, {k: v for k, v in args.items() if v is not None} or None)


@silent
def opened(span, n, at=None, own=None):
    """Starts the span of the trace."""
    span._token = _ring.start(n, nanoseconds(at), own)


@silent
def ended(span, at=None):
    """Ends the span of the trace, with its attributes. Returns the time as _ring.end does."""
    token = span._token
    if token is not None:
        own = {k: v for k, v in values(span._updated).items() if k != StandardSpanAttributeName.DURATION_MSEC}
        if span._failed:
            _ring.stop(token[1], dict(own, **failure(span._failed)), True, token)
        else:
            return _ring.end(token, own or None, None, nanoseconds(at))
    return None


def failure(error):
    """Returns the recorded data of an exception of the program: its type, text and traceback."""
    if not isinstance(error, BaseException):
        return {}
    text = silent(str)(error) or ""
    return {"exception_type": type(error).__name__, "exception_message": text[:4096]}


def reference(span):
    return None if span is None else span._ref
