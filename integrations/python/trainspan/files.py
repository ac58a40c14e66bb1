"""What the program does with files below folders that it names, as DFTracer's events
of category POSIX. Nothing imports this module unless that is asked for: by
DFTRACER_DATA_DIR, or by the data_dir of dftracer.initialize_log.

Functions of os, open and mmap.mmap are replaced by objects that call the original
ones. Files that are opened below the folders are what open gives otherwise, but for
the innermost part, a FileIO, which is an instance of a subclass. What C code does
past these functions is not seen.
"""

import builtins
import io
import itertools
import mmap
import os
import sys
import time

from . import _ring, quiet

NONE = -(1 << 63)  # a number that says nothing
MOST = 16384  # paths that are known at a time
clock = time.monotonic_ns
called = _ring.called
folders, inside = (), ()  # whose files are seen, and what paths in them begin with
everything = installed = patched = False
known = {}  # numbers of paths, 0 for one that is not below the folders
names = {}  # absolute paths by number
numbers = {}  # of files that are open, by descriptor
count = itertools.count(1).__next__


def _name(name, *words):
    return _ring.name(name, "POSIX", ("numbers", words + ("",) * (3 - len(words))))


OPEN, CLOSE, READ, WRITE = _name("open64", "flags", "ret", "mode"), _name("close", "", "ret"), _name("read", "count", "ret"), _name("write", "count", "ret")
PREAD, PWRITE, SEEK = (_name(name, "whence" if name == "lseek64" else "count", "ret", "offset") for name in ("pread", "pwrite", "lseek64"))
MMAP, SYNC, STAT, MKDIR = _name("mmap64", "length", "flags", "offset"), _name("fsync", "", "ret"), _name("stat", "", "ret"), _name("mkdir", "mode", "ret")


def below(path):
    """The number of what lies below the folders, else 0."""
    if type(path) is str:
        number = known.get(path)
        if number is not None:
            return number
    return _below(path) or 0


@quiet
def _below(path):
    if path is None or isinstance(path, int):
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
    """Forgets all paths but those of files that are open."""
    known.clear()
    used = set(numbers.values())
    for number in [number for number in names if number not in used]:
        del names[number]


def tell():
    """Says the numbers of files that are open, once more."""
    for number in set(numbers.values()):
        _ring.file_of(number, names.get(number, ""))


def size(data):
    return len(data) if type(data) is bytes else memoryview(data).nbytes


class Function:
    """A function in place of one of C, which is no method where a class has it either."""

    def __reduce__(self):
        return self.__name__


def function(original, f, module="os"):
    """f in place of original."""
    name = f.__name__ = f.__qualname__ = original.__name__
    kept = {"__call__": staticmethod(f), "__module__": module, "__doc__": original.__doc__}
    made = type("builtin_function_or_method", (Function,), kept)()
    made.__name__, made.__qualname__, made.__wrapped__, made.__self__ = name, name, original, getattr(original, "__self__", None)
    return made


def _on_file(name, n, first=NONE):
    """One of os whose only argument is a descriptor."""
    original = getattr(os, name)

    def f(fd):
        file = numbers.get(fd)
        if file is None:
            return original(fd)
        t = clock()
        try:
            value = original(fd)
        except OSError:
            called(n, t, first, -1, NONE, file)
            raise
        called(n, t, first, 0 if n == CLOSE else NONE, NONE, file)
        return value

    return f


def _on_path(name, n):
    """One of os whose first argument is a path."""
    original = getattr(os, name)

    def f(*args, **kwargs):
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

    return f


def _functions():
    """What takes the place of the functions of os."""
    read_, write_, pread_, pwrite_, lseek_ = os.read, os.write, os.pread, os.pwrite, os.lseek
    open_, stat_, mkdir_ = os.open, os.stat, os.mkdir

    def read(fd, length):
        file = numbers.get(fd)
        if file is None:
            return read_(fd, length)
        t = clock()
        try:
            data = read_(fd, length)
        except OSError:
            called(READ, t, length, -1, NONE, file)
            raise
        called(READ, t, length, len(data), NONE, file)
        return data

    def write(fd, data):
        file = numbers.get(fd)
        if file is None:
            return write_(fd, data)
        t = clock()
        try:
            n = write_(fd, data)
        except OSError:
            called(WRITE, t, size(data), -1, NONE, file)
            raise
        called(WRITE, t, size(data), n, NONE, file)
        return n

    def pread(fd, length, offset):
        file = numbers.get(fd)
        if file is None:
            return pread_(fd, length, offset)
        t = clock()
        try:
            data = pread_(fd, length, offset)
        except OSError:
            called(PREAD, t, length, -1, offset, file)
            raise
        called(PREAD, t, length, len(data), offset, file)
        return data

    def pwrite(fd, data, offset):
        file = numbers.get(fd)
        if file is None:
            return pwrite_(fd, data, offset)
        t = clock()
        try:
            n = pwrite_(fd, data, offset)
        except OSError:
            called(PWRITE, t, size(data), -1, offset, file)
            raise
        called(PWRITE, t, size(data), n, offset, file)
        return n

    def lseek(fd, position, whence):
        file = numbers.get(fd)
        if file is None:
            return lseek_(fd, position, whence)
        t = clock()
        try:
            at = lseek_(fd, position, whence)
        except OSError:
            called(SEEK, t, whence, -1, position, file)
            raise
        called(SEEK, t, whence, at, position, file)
        return at

    def open(path, flags, mode=0o777, *, dir_fd=None):
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

    def stat(path, *, dir_fd=None, follow_symlinks=True):
        file = below(path) if dir_fd is None else 0
        if not file:
            return stat_(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        t = clock()
        try:
            value = stat_(path, follow_symlinks=follow_symlinks)
        except OSError:
            called(STAT, t, NONE, -1, NONE, file)
            raise
        called(STAT, t, NONE, NONE, NONE, file)
        return value

    def mkdir(path, mode=0o777, *, dir_fd=None):
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

    def two_paths(original, n):
        def f(src, dst, *, src_dir_fd=None, dst_dir_fd=None):
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

        return f

    def close(fd):
        try:
            return close_file(fd)
        finally:
            numbers.pop(fd, None)

    def closerange(low, high):
        for fd in [fd for fd in numbers if low <= fd < high]:
            del numbers[fd]
        return closerange_(low, high)

    def dup2(fd, fd2, inheritable=True):
        numbers.pop(fd2, None)
        return dup2_(fd, fd2, inheritable)

    close_file, closerange_, dup2_ = _on_file("close", CLOSE), os.closerange, os.dup2
    made = dict(read=read, write=write, pread=pread, pwrite=pwrite, lseek=lseek, open=open, stat=stat, mkdir=mkdir, close=close, closerange=closerange, dup2=dup2)
    made["fsync"] = _on_file("fsync", SYNC)
    for name in ("rename", "replace"):
        made[name] = two_paths(getattr(os, name), _name("rename", "", "ret"))
    for name, of in (("unlink",) * 2, ("remove", "unlink"), ("rmdir",) * 2, ("listdir", "opendir"), ("scandir", "opendir"), ("access",) * 2, ("lstat",) * 2):
        made[name] = _on_path(name, _name(of, "", "ret"))
    return made


class FileIO(io.FileIO):
    """The innermost part of a file that open has made."""

    __module__, __slots__ = "_io", ("number",)

    def __new__(cls, number, *args):
        return new(cls)

    def __init__(self, number, file, mode, closefd):
        self.number = number
        init(self, file, mode, closefd)

    def __repr__(self):
        return io.FileIO.__repr__(self).replace("<FileIO ", "<_io.FileIO ", 1)

    def read(self, size=-1):
        if size is None or size < 0:
            return self.readall()
        t = clock()
        try:
            data = read(self, size)
        except OSError:
            called(READ, t, size, -1, NONE, self.number)
            raise
        called(READ, t, size, 0 if data is None else len(data), NONE, self.number)
        return data

    def readall(self):
        t = clock()
        try:
            data = readall(self)
        except OSError:
            called(READ, t, NONE, -1, NONE, self.number)
            raise
        n = 0 if data is None else len(data)
        called(READ, t, n, n, NONE, self.number)
        return data

    def readinto(self, into):
        t = clock()
        try:
            n = readinto(self, into)
        except OSError:
            called(READ, t, size(into), -1, NONE, self.number)
            raise
        called(READ, t, size(into), n or 0, NONE, self.number)
        return n

    def write(self, data):
        t = clock()
        try:
            n = write(self, data)
        except OSError:
            called(WRITE, t, size(data), -1, NONE, self.number)
            raise
        called(WRITE, t, size(data), n or 0, NONE, self.number)
        return n

    def seek(self, offset, whence=0):
        t = clock()
        try:
            at = seek(self, offset, whence)
        except OSError:
            called(SEEK, t, whence, -1, offset, self.number)
            raise
        called(SEEK, t, whence, at, offset, self.number)
        return at

    def close(self):
        if self.closed or not self.closefd:
            return close(self)
        numbers.pop(self.fileno(), None)
        t = clock()
        try:
            close(self)
        except OSError:
            called(CLOSE, t, NONE, -1, NONE, self.number)
            raise
        called(CLOSE, t, NONE, 0, NONE, self.number)


new, init, read, readall, readinto, write, seek, close = (
    getattr(io.FileIO, name) for name in ("__new__", "__init__", "read", "readall", "readinto", "write", "seek", "close")
)


def _mode(mode):
    """What open makes of a mode: the letters without b and t, whether it is text, and
    the flags and the mode that the system gets. None for one that is for the original to refuse."""
    letters = set(mode)
    if len(letters) != len(mode) or letters - set("rwaxbt+") or len(letters & set("rwax")) != 1 or {"b", "t"} <= letters:
        return None
    kind = (letters & set("rwax")).pop()
    flags = {"r": 0, "w": os.O_CREAT | os.O_TRUNC, "a": os.O_CREAT | os.O_APPEND, "x": os.O_CREAT | os.O_EXCL}[kind]
    flags |= os.O_RDWR if "+" in letters else os.O_RDONLY if kind == "r" else os.O_WRONLY
    return kind + "+" * ("+" in letters), "b" not in letters, flags | os.O_CLOEXEC, 0o666 if flags & os.O_CREAT else NONE


def _open(original):
    modes = {}

    def open(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
        number = numbers.get(file, 0) if type(file) is int else below(file)
        if opener is not None:
            made = original(file, mode, buffering, encoding, errors, newline, closefd, opener)
            numbers.pop(made.fileno(), None)  # C code will close it
            return made
        if not number:
            return original(file, mode, buffering, encoding, errors, newline, closefd)
        how = modes.get(mode) if type(mode) is str else None
        if how is None:
            how = modes[mode] = _mode(mode) if type(mode) is str else None
        # What is refused, or warned of, is so by the original.
        if (
            how is None
            or type(buffering) is not int
            or (buffering == 0 if how[1] else buffering == 1 or encoding or errors or newline)
            or (how[1] and encoding is None and getattr(sys.flags, "warn_default_encoding", 0))
        ):
            return original(file, mode, buffering, encoding, errors, newline, closefd)
        letters, text, flags, asked = how
        t = clock()
        try:
            raw = FileIO(number, file, letters, closefd)
        except OSError:
            called(OPEN, t, flags, -1, asked, number)
            raise
        if type(file) is not int:
            numbers[raw.fileno()] = number
            called(OPEN, t, flags, NONE, asked, number)
        if not patched and "numpy" in sys.modules:
            _numpy()
        whole = raw
        try:
            by_line = buffering == 1 or buffering < 0 and raw.isatty()
            if by_line or buffering < 0:
                size = raw._blksize
                default = io.DEFAULT_BUFFER_SIZE
                buffering = max(min(size, 8 << 20), default) if sys.version_info >= (3, 14) else size if size > 1 else default
            if buffering == 0:
                return raw
            whole = (io.BufferedRandom if "+" in letters else io.BufferedReader if letters == "r" else io.BufferedWriter)(raw, buffering)
            if text:
                whole = io.TextIOWrapper(whole, encoding, errors, newline, by_line)
                whole.mode = mode
            return whole
        except BaseException:
            whole.close()
            raise

    return open


def _maps(original):
    """A class in place of mmap.mmap."""

    class Kind(type):
        """Its instances are those of the original too, which may be older."""

        def __instancecheck__(cls, value):
            return isinstance(value, original) if cls is mmap.mmap else type.__instancecheck__(cls, value)

        def __subclasscheck__(cls, other):
            return issubclass(other, original) if cls is mmap.mmap else type.__subclasscheck__(cls, other)

    def __new__(cls, *args, **kwargs):
        fd = args[0] if args else kwargs.get("fileno")
        file = numbers.get(fd) if type(fd) is int else None
        if file is None:
            return original.__new__(cls, *args, **kwargs)
        t = clock()
        made = original.__new__(cls, *args, **kwargs)
        flags = args[2] if len(args) > 2 else kwargs.get("flags", mmap.MAP_SHARED)
        if kwargs.get("access") == mmap.ACCESS_COPY:
            flags = mmap.MAP_PRIVATE
        called(MMAP, t, len(made), flags, kwargs.get("offset", 0), file)
        return made

    def __repr__(self):
        return original.__repr__(self).replace("<mmap ", "<mmap.mmap ", 1)

    kept = {"__module__": "mmap", "__doc__": original.__doc__, "__slots__": (), "__new__": __new__, "__repr__": __repr__}
    return Kind("mmap", (original,), kept)


@quiet
def _numpy():
    """numpy.fromfile reads by C, and numpy.load by it."""
    global patched
    numpy = sys.modules["numpy"]
    original = getattr(numpy, "fromfile", None)
    if original is None:  # it is being imported
        return
    patched = True

    def fromfile(file, *args, **kwargs):
        number = numbers.get(file.fileno(), 0) if hasattr(file, "fileno") else below(file)
        if not number:
            return original(file, *args, **kwargs)
        t = clock()
        data = original(file, *args, **kwargs)
        called(READ, t, data.nbytes, data.nbytes, NONE, number)
        return data

    numpy.fromfile = function(original, fromfile, "numpy")


def install(dirs):
    """Sees files below folders from now on; "all" stands for all folders."""
    global folders, inside, everything, installed
    everything = everything or "all" in dirs
    folders = frozenset(folders) | {os.path.abspath(d) for d in dirs if d and d != "all"}
    inside = tuple(d.rstrip("/") + "/" for d in folders)
    if installed or not (folders or everything):
        return
    installed = True
    for name, f in _functions().items():
        original = getattr(os, name)
        made = function(original, f)
        for known in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
            if original in known:
                known.add(made)
        setattr(os, name, made)
        accessor = getattr(sys.modules.get("pathlib"), "_NormalAccessor", None)  # of Python 3.8 and 3.9
        if vars(accessor).get(name) is original if accessor else False:
            setattr(accessor, name, made)
    builtins.open = io.open = sys.modules["_io"].open = function(io.open, _open(io.open), "io")
    mmap.mmap = _maps(mmap.mmap)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_child)


def _child():
    """After a fork: its ring knows none of the files that are open."""
    global called

    def first(n, t, *rest):
        global called
        called, end = _ring.called, clock()
        tell()
        called(n, t + clock() - end, *rest)

    called = first
    forget_paths()


def wanted(data_dir=None):
    """The folders that the program named, by the rules of DFTracer."""
    off = [os.environ.get(name, "").strip().lower() for name in ("DFTRACER_DISABLE_IO", "DFTRACER_DISABLE_POSIX")]
    if not _ring.wanted or any(value in ("1", "true", "on", "yes") for value in off):
        return []
    return [d for d in (data_dir or os.environ.get("DFTRACER_DATA_DIR") or "").split(":") if d]
