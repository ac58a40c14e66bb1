"""Records where the time of a training job goes.

    import trainspan as ts

    for batch in loader:
        with ts.step():                        # a step of the training
            with ts.span("forward"):           # a part of it, by a name
                loss = model(batch)
            ts.metric(loss=loss.item())        # current numbers

    @ts.span("generate", model="small")        # decorators, of async functions too
    def generate(prompt): ...

    wait = ts.span("data").start()             # in the callbacks of a trainer
    wait.stop()

    run = ts.load("train.3")                   # a recorded run, by its id
    run.steps.to_pandas()                      # also spans, metrics, ranks, account, findings

Run the program with `trainspan run -- python train.py`, which prints a report. Without that
command the calls do nothing. PyTorch needs no calls: its steps and phases are recorded.

trainspan.dftracer has DFTracer's API, trainspan.onelogger one-logger's.
"""

import os
import sys

if sys.version_info < (3, 8):
    raise ImportError("trainspan needs Python 3.8 or later, and this is Python %d.%d" % sys.version_info[:2])

__version__ = "0.1.0"
__all__ = ["load", "metric", "span", "step"]
environ = os.environ  # under trainspan run, the environment at the start of the process
client = None  # under trainspan run, the finder in sys.meta_path: it has the time when the interpreter was ready, and the imports


# The error that is ignored without a check, because the stack has no space for the call that
# checks it. The limit is the program's: Python 3.8 aborts a program that continues above the
# limit, so there the error is raised.
deep = RecursionError if sys.version_info >= (3, 9) else ()


def interrupted(error):
    """Returns whether a signal handler or a trace function raised an error: these get the
    interrupted frame."""
    return _frames(error)[0]


def alien(error):
    """Returns whether an error was raised outside of the client's code: by code that
    interrupted the client, or by another thread. Its class is then one that no called function
    raises."""
    outside, frame = _frames(error)
    if outside:
        return True
    ours = frame is not None and frame.f_code.co_filename.startswith(_folder)
    if not deep and isinstance(error, RecursionError):
        return True
    return not isinstance(error, Exception) or ours and type(error).__module__.partition(".")[0] not in ("builtins", "struct", "torch")


def _frames(error):
    """Returns whether an error came from code that interrupts a frame, and the frame that
    raised it."""
    trace, frame = error.__traceback__, None
    while trace is not None:
        for value in trace.tb_frame.f_locals.values() if frame is not None else ():
            if value is frame or type(value) is tuple and any(v is frame for v in value):
                return True, frame
        trace, frame = trace.tb_next, trace.tb_frame
    return False, frame


_folder = os.path.dirname(__file__)  # the folder of trainspan_torch has the same prefix


def passing(error, undo=None, *args):
    """Raises an error again, after undo(*args), if it must reach the program. Other errors end
    here: telemetry must not stop the program."""
    try:
        if alien(error):
            if undo is not None:
                undo(*args)
            raise error
    finally:
        del error  # its traceback has this frame


def unframed(error):
    """Removes the frame of the caller from the traceback of an error of the program, so that
    the traceback is the same as without the client. The caller continues with a bare raise;
    before Python 3.11 that restores the traceback."""
    trace, frame = error.__traceback__, sys._getframe(1)
    while trace is not None and trace.tb_frame is frame:
        trace = trace.tb_next
    BaseException.with_traceback(error, trace)  # a class may refuse to set its attributes


def quiet(f):
    """Wraps f so that it returns None instead of raising."""

    def call(*args, **kwargs):
        try:
            return f(*args, **kwargs)
        except deep:
            return None
        except Exception as e:
            return passing(e)

    call.__name__, call.__doc__, call.__wrapped__ = f.__name__, f.__doc__, f
    return call


class _Attributes(dict):
    """The attributes of a function without those for Dynamo, for code that copies them, such as
    functools.wraps: Dynamo would leave out the program's function to which they are copied."""

    def keys(self):
        return [key for key in dict.keys(self) if key != "_torchdynamo_inline"]

    def __iter__(self):
        return iter(self.keys())

    def copy(self):
        return dict(self)


def traced_as(other):
    """Decorates a function in whose place torch.compile traces another one, because spans inside
    of compiled code would break its graph."""

    def decorate(f):
        f.__dict__ = _Attributes(f.__dict__)
        f._torchdynamo_inline = other
        return f

    return decorate


@traced_as(lambda: True)
def compiling():
    """Returns whether torch.compile traces the caller. Dynamo folds a condition on it away."""
    return False


def plain(value):
    """Returns a number or a text unchanged. It does not access a tensor, which might wait for
    its device, and does not use the class that a value claims to have."""
    kind = type(value)
    if issubclass(kind, (str, int, float)):
        return value
    if issubclass(kind, os.PathLike):
        return os.fspath(value)
    if kind.__module__ == "numpy" and getattr(value, "shape", None) == ():
        return value.item()
    return kind.__name__


def __getattr__(name):
    """Loads the functions of __all__ and their types at the first access, because every process
    imports this module."""
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
