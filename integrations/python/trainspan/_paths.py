"""Selects the recorded files, their numbers in the ring buffer, and the names of the calls on
them."""

import itertools
import os
import time

from . import _ring, quiet

NONE = -(1 << 63)  # the value for no number
MOST = 16384  # paths that are known at a time
clock = time.monotonic_ns
folders, inside = (), ()  # folders whose files are recorded, and the prefixes of paths in them
everything = False
known = {}  # numbers of paths, 0 for one outside of the folders
names = {}  # absolute paths by number
numbers = {}  # of open files, by descriptor
count = itertools.count(1).__next__


def _name(name, *words):
    return _ring.name(name, "POSIX", ("numbers", words + ("",) * (3 - len(words))))


OPEN, CLOSE, READ, WRITE = _name("open64", "flags", "ret", "mode"), _name("close", "", "ret"), _name("read", "count", "ret"), _name("write", "count", "ret")
PREAD, PWRITE, SEEK = (_name(name, "whence" if name == "lseek64" else "count", "ret", "offset") for name in ("pread", "pwrite", "lseek64"))
MMAP, SYNC, STAT, MKDIR = _name("mmap64", "length", "flags", "offset"), _name("fsync", "", "ret"), _name("stat", "", "ret"), _name("mkdir", "mode", "ret")


def below(path):
    """Returns the number of a path below the folders, else 0."""
    if type(path) is str:
        number = known.get(path)
        if number is not None:
            return number
    return _below(path) or 0


@quiet
def _below(path):
    if path is None or isinstance(path, int) or _ring.busy():
        return 0
    given = path = os.fsdecode(path)
    if not path.startswith("/"):
        path = os.path.join(os.getcwd(), path)
    if "/." in path or "//" in path or path.endswith("/"):
        path = os.path.normpath(path)
    number = known.get(path)
    if number is None:
        if len(known) >= MOST:
            forget_paths()
            tell()
        number = 0
        if (everything or path.startswith(inside) or path in folders) and not path.endswith((".ring", ".names")):
            number = count()
            names[number] = path
            _ring.file_of(number, path)
        known[path] = number
    if given.startswith("/"):
        known[given] = number
    return number


def forget_paths():
    """Forgets all paths except those of open files."""
    known.clear()
    used = set(numbers.values())
    for number in [number for number in names if number not in used]:
        del names[number]


def tell():
    """Records the numbers of open files again."""
    for number in set(numbers.values()):
        _ring.file_of(number, names.get(number, ""))


def size(data):
    return len(data) if type(data) is bytes else memoryview(data).nbytes


class Function:
    """A function that replaces a C function, which is not a method if it is the attribute of a
    class."""

    def __reduce__(self):
        return self.__name__


def function(original, f, module="os"):
    """Returns f in place of original."""
    name = f.__name__ = f.__qualname__ = original.__name__
    kept = {"__call__": staticmethod(f), "__module__": module, "__doc__": original.__doc__}
    made = type("builtin_function_or_method", (Function,), kept)()
    made.__name__, made.__qualname__, made.__wrapped__, made.__self__ = name, name, original, getattr(original, "__self__", None)
    return made
