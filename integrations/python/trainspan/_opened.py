"""Files from open, memory maps of them, and numpy's reads of them."""

import io
import mmap
import os
import sys

from . import _ring, quiet, unframed
from ._paths import CLOSE, MMAP, NONE, OPEN, READ, SEEK, WRITE, below, clock, function, numbers, size

called = _ring.called
patched = False


class FileIO(io.FileIO):
    """The raw file below an object that open returns."""

    __module__, __slots__ = "_io", ("number",)

    def __new__(cls, number, *args):
        return new(cls)

    def __init__(self, number, file, mode, closefd):
        try:
            self.number = number
            init(self, file, mode, closefd)
        except BaseException as e:
            unframed(e)
            raise

    def __repr__(self):
        return io.FileIO.__repr__(self).replace("<FileIO ", "<_io.FileIO ", 1)

    def read(self, size=-1):
        try:
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
        except BaseException as e:
            unframed(e)
            raise

    def readall(self):
        try:
            t = clock()
            try:
                data = readall(self)
            except OSError:
                called(READ, t, NONE, -1, NONE, self.number)
                raise
            n = 0 if data is None else len(data)
            called(READ, t, n, n, NONE, self.number)
            return data
        except BaseException as e:
            unframed(e)
            raise

    def readinto(self, into):
        try:
            t = clock()
            try:
                n = readinto(self, into)
            except OSError:
                called(READ, t, size(into), -1, NONE, self.number)
                raise
            called(READ, t, size(into), n or 0, NONE, self.number)
            return n
        except BaseException as e:
            unframed(e)
            raise

    def write(self, data):
        try:
            t = clock()
            try:
                n = write(self, data)
            except OSError:
                called(WRITE, t, size(data), -1, NONE, self.number)
                raise
            called(WRITE, t, size(data), n or 0, NONE, self.number)
            return n
        except BaseException as e:
            unframed(e)
            raise

    def seek(self, offset, whence=0):
        try:
            t = clock()
            try:
                at = seek(self, offset, whence)
            except OSError:
                called(SEEK, t, whence, -1, offset, self.number)
                raise
            called(SEEK, t, whence, at, offset, self.number)
            return at
        except BaseException as e:
            unframed(e)
            raise

    def close(self):
        try:
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
        except BaseException as e:
            unframed(e)
            raise


new, init, read, readall, readinto, write, seek, close = (
    getattr(io.FileIO, name) for name in ("__new__", "__init__", "read", "readall", "readinto", "write", "seek", "close")
)


def _mode(mode):
    """Parses a mode of open: returns the letters without b and t, whether it is text, and the
    flags and the mode for the system. None for an invalid mode, which the original rejects."""
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
        try:
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
            # The original rejects invalid arguments, or warns of them.
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
        except BaseException as e:
            unframed(e)
            raise

    return open


def _maps(original):
    """Returns a class that replaces mmap.mmap."""

    class Kind(type):
        """Makes instances of the original, which may be older, count as instances of the class."""

        def __instancecheck__(cls, value):
            return isinstance(value, original) if cls is mmap.mmap else type.__instancecheck__(cls, value)

        def __subclasscheck__(cls, other):
            return issubclass(other, original) if cls is mmap.mmap else type.__subclasscheck__(cls, other)

    def __new__(cls, *args, **kwargs):
        try:
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
        except BaseException as e:
            unframed(e)
            raise

    def __repr__(self):
        return original.__repr__(self).replace("<mmap ", "<mmap.mmap ", 1)

    kept = {"__module__": "mmap", "__doc__": original.__doc__, "__slots__": (), "__new__": __new__, "__repr__": __repr__}
    return Kind("mmap", (original,), kept)


@quiet
def _numpy():
    """Records numpy.fromfile, which reads in C, and numpy.load, which uses it."""
    global patched
    numpy = sys.modules["numpy"]
    original = getattr(numpy, "fromfile", None)
    if original is None:  # its import is in progress
        return
    patched = True

    def fromfile(file, *args, **kwargs):
        try:
            number = numbers.get(file.fileno(), 0) if hasattr(file, "fileno") else below(file)
            if not number:
                return original(file, *args, **kwargs)
            t = clock()
            data = original(file, *args, **kwargs)
            called(READ, t, data.nbytes, data.nbytes, NONE, number)
            return data
        except BaseException as e:
            unframed(e)
            raise

    numpy.fromfile = function(original, fromfile, "numpy")
