"""See where the time of a training job goes.

    import trainspan as ts

    for batch in loader:
        with ts.step():                        # a step of the training
            with ts.span("forward"):           # a part of it, by a name
                loss = model(batch)
            ts.metric(loss=loss.item())        # numbers of this moment

    @ts.span("generate", model="small")        # decorators, of async functions too
    def generate(prompt): ...

    wait = ts.span("data").start()             # in the callbacks of a trainer
    wait.stop()

    run = ts.load("train.3")                   # what was recorded, by the id of the run
    run.steps.to_pandas()                      # also spans, metrics, ranks, account, findings

Run it by `trainspan run -- python train.py`: the screen shows the report. Without that
command the calls do nothing. PyTorch needs no call: its steps and phases are seen.

trainspan.dftracer has DFTracer's API, trainspan.onelogger one-logger's.
"""

import os
import sys

if sys.version_info < (3, 8):
    raise ImportError("trainspan needs Python 3.8 or later, and this is Python %d.%d" % sys.version_info[:2])

__version__ = "0.1.0"
__all__ = ["load", "metric", "span", "step"]
environ = os.environ  # below trainspan run what that had said when the process began
client = None  # what stands in sys.meta_path below trainspan run: when the interpreter was ready, what was imported


# What is left out without a word, since there is no room for a call that looks at it. It is the
# program's own limit: Python 3.8 ends a program that goes on above it, so there it passes.
deep = RecursionError if sys.version_info >= (3, 9) else ()


def interrupted(error):
    """Whether a handler of a signal or a trace function raised an error: these get the
    frame that they interrupt."""
    return _frames(error)[0]


def alien(error):
    """Whether an error came into the client's code from outside: something that interrupted
    it raised it, or another thread has sent it, so that it has a class that nothing which is
    called here raises."""
    outside, frame = _frames(error)
    if outside:
        return True
    ours = frame is not None and frame.f_code.co_filename.startswith(_folder)
    if not deep and isinstance(error, RecursionError):
        return True
    return not isinstance(error, Exception) or ours and type(error).__module__.partition(".")[0] not in ("builtins", "struct", "torch")


def _frames(error):
    """Whether an error came from what interrupts a frame, and the frame that raised it."""
    trace, frame = error.__traceback__, None
    while trace is not None:
        for value in trace.tb_frame.f_locals.values() if frame is not None else ():
            if value is frame or type(value) is tuple and any(v is frame for v in value):
                return True, frame
        trace, frame = trace.tb_next, trace.tb_frame
    return False, frame


_folder = os.path.dirname(__file__)  # that of trainspan_torch begins like it


def passing(error, undo=None, *args):
    """Raises an error again, after undo(*args), that must pass. The others end here:
    telemetry stops nothing."""
    try:
        if alien(error):
            if undo is not None:
                undo(*args)
            raise error
    finally:
        del error  # its trace has this frame


def unframed(error):
    """Takes the frame that calls this out of the traceback of an error, which is the program's
    and only passes there: what users read ends as without us. The caller goes on with a
    bare raise; before Python 3.11 that puts the traceback back."""
    trace, frame = error.__traceback__, sys._getframe(1)
    while trace is not None and trace.tb_frame is frame:
        trace = trace.tb_next
    BaseException.with_traceback(error, trace)  # a class may refuse that its attributes are set


def quiet(f):
    """f, which gives None where it would raise."""

    def call(*args, **kwargs):
        try:
            return f(*args, **kwargs)
        except deep:
            return None
        except Exception as e:
            return passing(e)

    call.__name__, call.__doc__, call.__wrapped__ = f.__name__, f.__doc__, f
    return call


def plain(value):
    """A number or a text. Nothing is asked of a tensor, which might wait for its device, and
    of no value what class it says it has."""
    kind = type(value)
    if issubclass(kind, (str, int, float)):
        return value
    if issubclass(kind, os.PathLike):
        return os.fspath(value)
    if kind.__module__ == "numpy" and getattr(value, "shape", None) == ():
        return value.item()
    return kind.__name__


def __getattr__(name):
    """The functions of __all__ and their types, when they are first asked for: every process imports this module."""
    if name not in __all__ and name not in ("Run", "Span"):
        raise AttributeError("module %r has no attribute %r" % (__name__, name))
    if name in ("load", "Run"):
        from . import _load

        found = getattr(_load, name)
    else:
        from . import _api

        found = getattr(_api, name)
    globals()[name] = found
    return found


def __dir__():
    return sorted(set(globals()) | set(__all__))
