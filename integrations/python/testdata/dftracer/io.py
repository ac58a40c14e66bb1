"""Uses files in all ways of a program, below the traced folder and elsewhere."""

import mmap
import os
import pathlib
import sys

from trainspan.dftracer import ai, dftracer

root = sys.argv[1]
os.makedirs(root + "/in")
log = dftracer.initialize_log(root + "/trace.pfw", root + "/in", -1)
a, b = root + "/in/a", root + "/in/b"
with ai.data.item:
    with open(a, "w") as f:
        f.write("x" * 5000)
with open(a, "rb", 4096) as f:  # newer versions of Python use a larger buffer by default
    f.read(10)
    f.seek(0, 2)
with open(a, "rb", 0) as f:
    f.readall()
with open(root + "/elsewhere", "w") as f:
    f.write("not seen")
fd = os.open(b, os.O_RDWR | os.O_CREAT, 0o600)
os.write(fd, b"abc")
os.pwrite(fd, memoryview(b"de"), 3)
os.pread(fd, 9, 1)
os.lseek(fd, 0, os.SEEK_SET)
os.read(fd, 100)
os.fsync(fd)
with mmap.mmap(fd, 5, access=mmap.ACCESS_READ) as m:
    assert m[:2] == b"ab" and isinstance(m, mmap.mmap) and type(m).__name__ == "mmap"
os.close(fd)
os.stat(b)
os.rename(b, b + ".new")
os.chdir(root)
path = pathlib.Path("in") / "b.new"
assert path.read_bytes() == b"abcde"
path.unlink()
os.mkdir("in/d")
os.rmdir("in/d")
assert sorted(os.listdir(root + "/in")) == ["a"] == [e.name for e in os.scandir("in")]
try:
    open(root + "/in/none")
except FileNotFoundError:
    pass
read, write = os.pipe()  # it may reuse the descriptor of a closed file
os.write(write, b"1")
os.read(read, 1)
if os.fork() == 0:
    with open(a, "rb", 4096) as f:
        f.read(1)
    os._exit(0)
os.wait()
with open(a, "rb", 0) as f:
    for _ in range(int(sys.argv[2])):
        f.seek(0)
        f.read(10)
