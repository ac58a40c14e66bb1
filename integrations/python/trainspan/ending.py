"""Records the error with which a process failed, for the outcome of its run."""

import linecache
import os
import sys
import sysconfig
import traceback

from . import _ring, passing, quiet, unframed

_told = False


def failure():
    """Returns the exception that ends the process, None if it cannot be determined."""
    error = sys.exc_info()[1]
    if isinstance(error, SystemExit):  # caught in a process of multiprocessing, until Python 3.12
        error = error.__context__ if error.code else None
    if error is None and not hasattr(sys, "ps1"):  # at a prompt it would be an earlier line's
        error = getattr(sys, "last_value", None)
    return None if isinstance(error, SystemExit) else error


@quiet
def tell():
    """Records that failure, and for a launcher which of its processes failed."""
    global _told
    error = failure()
    if error is None or _told:
        return
    _told = True
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else kind.__module__ + "." + kind.__qualname__
    said = {"exception_type": name, "exception_message": str(error)[-8000:]}
    place = _place(error)
    if place:
        said["exception_at"], said["exception_code"] = place
    _ring.failed(said)
    children = getattr(error, "failures", None)
    if isinstance(children, dict):  # torchelastic: by rank
        for rank, child in children.items():
            _child(child.pid, child.exitcode, rank, child.message if child.error_file != "<N/A>" else "")
    elif hasattr(error, "error_index"):  # torch.multiprocessing.spawn: the traceback of the process, or its status
        status = getattr(error, "exit_code", None)
        _child(getattr(error, "error_pid", None) or error.pid, 1 if status is None else status, None, str(error) if status is None else "")


def _place(error):
    """Returns file and line of the program's own code that raised the exception, and that line
    of source; None if it has no traceback, or no frame of the program's own."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return "%s:%d" % (_short(error.filename), error.lineno), (error.text or "").strip()[:200]
    libraries = {os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}
    libraries.update(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
    found = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = frame.f_code.co_filename
        own = not path.startswith("<") and not any(path.startswith(folder + os.sep) for folder in libraries)
        if own and "site-packages" not in path and "dist-packages" not in path:
            found = path, line
    return found and ("%s:%d" % (_short(found[0]), found[1]), linecache.getline(*found).strip()[:200])


def _short(path):
    """Returns path relative to the working directory if it is below it, else unchanged."""
    try:
        short = os.path.relpath(path)
    except (OSError, ValueError):
        return path
    return path if short.startswith(os.pardir) else short


def telling(f):
    """Wraps f, which a process of torch.multiprocessing runs, because from Python 3.13 on its
    exception is not available at the exit of the process."""

    def call(*args, **kwargs):
        try:
            return f(*args, **kwargs)
        except SystemExit as e:
            tell()
            unframed(e)
            raise
        except BaseException as e:
            unframed(e)
            raise

    return call


def _child(pid, status, rank, message):
    try:
        if isinstance(message, dict):
            message = message.get("message")
        said = {"failed_pid": int(pid), "exit_status": int(status)}
        if rank is not None:
            said["failed_rank"] = int(rank)
        if message:
            said["exception_message"] = str(message)[-8000:]
        _ring.failed(said)
    except Exception as e:
        passing(e)
