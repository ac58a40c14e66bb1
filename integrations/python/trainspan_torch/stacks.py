"""Lets `trainspan run` read the stacks of a process's threads when its job hangs: Python's
faulthandler writes them to a file on a signal that the program does not use. If the program
installs a handler for this signal later, the client releases it before."""

import os
import sys

from trainspan import environ, quiet

_used = None  # the process, the signal and the file
_observed = False


def _free(signal):
    """Returns a signal at the end of the real-time ones that has its default action and is not
    blocked, 0 without one. C code may have set a handler, so the function asks the system."""
    busy = 0
    with open("/proc/self/status", "rb") as f:
        for line in f:
            if line.startswith((b"SigBlk:", b"SigIgn:", b"SigCgt:")):
                busy |= int(line.split()[1], 16)
    last = int(signal.SIGRTMAX)
    return next((n for n in range(last - 7, last - 11, -1) if not busy >> (n - 1) & 1), 0)


def _observe(signal):
    """Makes signal.signal, which checks its arguments first, release the signal. Its errors
    have no frame of the client."""
    global _observed
    plain = signal._enum_to_int

    def looked_at(value):
        number = plain(value)
        if _used and type(number) is int and number == _used[1]:
            leave()
        return number

    if not _observed:
        _observed, signal._enum_to_int = True, looked_at


@quiet
def ready():
    """Called when the process begins to train."""
    global _used
    signal = sys.modules.get("signal")
    folder = environ.get("TRAINSPAN_RING", "").split(os.pathsep)[-1]
    if not folder or "faulthandler" not in sys.builtin_module_names or not hasattr(signal, "_enum_to_int") or not hasattr(signal, "SIGRTMAX"):
        return
    import faulthandler

    if _used:
        if _used[0] == os.getpid():
            return
        faulthandler.unregister(_used[1])  # of the process from which this one was forked
        _used = None
    number = _free(signal)
    if not number:
        return
    _observe(signal)
    path = os.path.join(folder, "stack-%d-%d.names" % (os.getpid(), number))
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    faulthandler.register(number, file=fd, all_threads=True, chain=False)
    _used = os.getpid(), number, path


@quiet
def leave():
    """Releases the signal for the program."""
    global _used
    (pid, number, path), _used = _used, None
    if pid == os.getpid():
        os.unlink(path)  # first: without the file no signal is sent
    import faulthandler

    faulthandler.unregister(number)
