"""Records what the program does with files below the folders that it names, as DFTracer's
events of category POSIX. This module is imported only on request: by DFTRACER_DATA_DIR, or
by the data_dir of dftracer.initialize_log.

Functions of os, open and mmap.mmap are replaced by objects that call the original ones. Files
that are opened below the folders are the usual objects, except for the raw file, a FileIO,
which is an instance of a subclass. Accesses of C code without these functions are not recorded.
"""

import builtins
import io
import mmap
import os
import sys

from . import _opened, _paths, _ring, unframed
from ._opened import _maps, _open
from ._paths import (
    CLOSE, MKDIR, NONE, OPEN, PREAD, PWRITE, READ, SEEK, STAT, SYNC, WRITE,
    _name, below, clock, forget_paths, function, known, names, numbers, size, tell,
)  # fmt: skip

called = _ring.called
installed = False


# Calls on a descriptor: their other parameters, and the three recorded numbers.
_CALLS = {
    "read": (READ, "length", "length, len(value), NONE"), "write": (WRITE, "data", "size(data), value, NONE"),
    "pread": (PREAD, "length, offset", "length, len(value), offset"), "pwrite": (PWRITE, "data, offset", "size(data), value, offset"),
    "lseek": (SEEK, "position, whence", "whence, value, position"), "fsync": (SYNC, "", "NONE, NONE, NONE"), "close": (CLOSE, "", "NONE, 0, NONE"),
}
_CALL = """
def of(original, n):
    def f(fd, {given}):
        try:
            file = numbers.get(fd)
            if file is None:
                return original(fd, {given})
            t = clock()
            try:
                value = original(fd, {given})
            except OSError:
                called(n, t, {asked}, -1, {place}, file)
                raise
            called(n, t, {asked}, {result}, {place}, file)
            return value
        except BaseException as e:
            unframed(e)
            raise

    return f
"""


def _on_file(name):
    """Returns the replacement of a function of os whose first argument is a descriptor. Such
    functions are called often, so it does not pass the arguments on as a tuple."""
    n, given, told = _CALLS[name]
    asked, result, place = told.split(", ")
    scope = {}
    exec(_CALL.format(given=given, asked=asked, result=result, place=place), globals(), scope)
    return scope["of"](getattr(os, name), n)


def _on_path(name, n):
    """Returns the replacement of a function of os whose first argument is a path."""
    original = getattr(os, name)

    def f(*args, **kwargs):
        try:
            if not kwargs:
                file = below(args[0] if args else ".")
            else:
                file = below(args[0] if args else kwargs.get("path", ".")) if kwargs.get("dir_fd") is None else 0
            if not file:
                return original(*args, **kwargs)
            t = clock()
            try:
                value = original(*args, **kwargs)
            except OSError:
                called(n, t, NONE, -1, NONE, file)
                raise
            called(n, t, NONE, NONE, NONE, file)
            return value
        except BaseException as e:
            unframed(e)
            raise

    return f


def _functions():
    """Returns the replacements of the functions of os."""
    open_, stat_, mkdir_ = os.open, os.stat, os.mkdir

    def open(path, flags, mode=0o777, *, dir_fd=None):
        try:
            file = below(path) if dir_fd is None else 0
            if not file:
                return open_(path, flags, mode, dir_fd=dir_fd)
            asked = mode if flags & os.O_CREAT else NONE
            t = clock()
            try:
                fd = open_(path, flags, mode)
            except OSError:
                called(OPEN, t, flags | os.O_CLOEXEC, -1, asked, file)
                raise
            numbers[fd] = file
            called(OPEN, t, flags | os.O_CLOEXEC, NONE, asked, file)
            return fd
        except BaseException as e:
            unframed(e)
            raise

    def stat(path, *, dir_fd=None, follow_symlinks=True):
        try:
            if type(path) is not str or dir_fd is not None or (file := known.get(path)) is None:
                file = below(path) if dir_fd is None else 0
            if not file:
                return stat_(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
            t = clock()
            try:
                value = stat_(path) if follow_symlinks else stat_(path, follow_symlinks=follow_symlinks)
            except OSError:
                called(STAT, t, NONE, -1, NONE, file)
                raise
            called(STAT, t, NONE, NONE, NONE, file)
            return value
        except BaseException as e:
            unframed(e)
            raise

    def mkdir(path, mode=0o777, *, dir_fd=None):
        try:
            file = below(path) if dir_fd is None else 0
            if not file:
                return mkdir_(path, mode, dir_fd=dir_fd)
            t = clock()
            try:
                mkdir_(path, mode)
            except OSError:
                called(MKDIR, t, mode, -1, NONE, file)
                raise
            called(MKDIR, t, mode, NONE, NONE, file)
        except BaseException as e:
            unframed(e)
            raise

    def two_paths(original, n):
        def f(src, dst, *, src_dir_fd=None, dst_dir_fd=None):
            try:
                file = to = 0
                if src_dir_fd is None and dst_dir_fd is None:
                    file, to = below(src), below(dst)
                if not (file or to):
                    return original(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
                both = [names.get(number) or os.fsdecode(path) for number, path in ((file, src), (to, dst))]
                t = clock()
                try:
                    original(src, dst)
                except OSError:
                    called(n, t, NONE, -1, NONE, _ring.path_of("\0".join(both)) or 0)
                    raise
                called(n, t, NONE, NONE, NONE, _ring.path_of("\0".join(both)) or 0)
            except BaseException as e:
                unframed(e)
                raise

        return f

    def close(fd):
        try:
            try:
                return close_file(fd)
            finally:
                numbers.pop(fd, None)
        except BaseException as e:
            unframed(e)
            raise

    def closerange(low, high):
        try:
            for fd in [fd for fd in numbers if low <= fd < high]:
                del numbers[fd]
            return closerange_(low, high)
        except BaseException as e:
            unframed(e)
            raise

    def dup2(fd, fd2, inheritable=True):
        try:
            numbers.pop(fd2, None)
            return dup2_(fd, fd2, inheritable)
        except BaseException as e:
            unframed(e)
            raise

    made = {name: _on_file(name) for name in _CALLS}
    close_file, closerange_, dup2_ = made["close"], os.closerange, os.dup2
    made.update(open=open, stat=stat, mkdir=mkdir, close=close, closerange=closerange, dup2=dup2)
    for name in ("rename", "replace"):
        made[name] = two_paths(getattr(os, name), _name("rename", "", "ret"))
    for name, of in (("unlink",) * 2, ("remove", "unlink"), ("rmdir",) * 2, ("listdir", "opendir"), ("scandir", "opendir"), ("access",) * 2, ("lstat",) * 2):
        made[name] = _on_path(name, _name(of, "", "ret"))
    return made


def install(dirs):
    """Records files below folders from now on; "all" stands for all folders."""
    global installed
    _paths.everything = _paths.everything or "all" in dirs
    _paths.folders = frozenset(_paths.folders) | {os.path.abspath(d) for d in dirs if d and d != "all"}
    _paths.inside = tuple(d.rstrip("/") + "/" for d in _paths.folders)
    forget_paths()
    if installed or not (_paths.folders or _paths.everything):
        return
    installed = True
    for name, f in _functions().items():
        original = getattr(os, name)
        made = function(original, f)
        for group in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
            if original in group:
                group.add(made)
        setattr(os, name, made)
        accessor = getattr(sys.modules.get("pathlib"), "_NormalAccessor", None)  # in Python 3.8 and 3.9
        if vars(accessor).get(name) is original if accessor else False:
            setattr(accessor, name, made)
    builtins.open = io.open = sys.modules["_io"].open = function(io.open, _open(io.open), "io")
    mmap.mmap = _maps(mmap.mmap)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_child)


def _child():
    """Runs after a fork: the new ring buffer has no open files."""
    global called

    def first(n, t, *rest):
        global called
        called, end = _ring.called, clock()
        _opened.called = called
        tell()
        called(n, t + clock() - end, *rest)

    called = _opened.called = first
    forget_paths()


def wanted(data_dir=None):
    """Returns the folders that the program named, by the rules of DFTracer."""
    off = [os.environ.get(name, "").strip().lower() for name in ("DFTRACER_DISABLE_IO", "DFTRACER_DISABLE_POSIX")]
    if not _ring.wanted or any(value in ("1", "true", "on", "yes") for value in off):
        return []
    return [d for d in (data_dir or os.environ.get("DFTRACER_DATA_DIR") or "").split(":") if d]
