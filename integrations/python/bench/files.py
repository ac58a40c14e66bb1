"""Measures the cost that recording adds to a call on a file, in nanoseconds and as a multiple of
two reads of the clock in the same run, and the cost for a file that is not recorded.

    TRAINSPAN_RING=/dev/shm python3 integrations/python/bench/files.py
"""

import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import spans  # noqa: E402
from spans import cost  # noqa: E402
from trainspan import files  # noqa: E402

spans.REPEATS = 100


def rows(inside, outside):
    path, other = os.path.join(inside, "f"), os.path.join(outside, "f")
    fd, fd2 = os.open(path, os.O_RDWR), os.open(other, os.O_RDWR)
    raw = open(path, "rb", 0)
    into = bytearray(64)
    yield "pread", cost("f(fd, 64, 0)", f=os.pread, fd=fd)
    yield "lseek", cost("f(fd, 0, 0)", f=os.lseek, fd=fd)
    yield "raw_readinto", cost("f(into)", f=raw.readinto, into=into)
    yield "stat", cost("f(path)", f=os.stat, path=path)
    yield "open_close", cost("f(path, 0).close()", f=lambda path, _: open(path, "rb", 0), path=path)
    yield "not_below_lseek", cost("f(fd, 0, 0)", f=os.lseek, fd=fd2)
    yield "not_below_stat", cost("f(path)", f=os.stat, path=other)


with tempfile.TemporaryDirectory() as inside, tempfile.TemporaryDirectory() as outside:
    for folder in (inside, outside):
        with open(os.path.join(folder, "f"), "wb") as f:
            f.write(bytes(4096))
    clocks = cost("now(); now()", now=time.time_ns)
    before = dict(rows(inside, outside))
    files.install([inside])
    print("%-16s %7.0f ns" % ("two_clocks", clocks))
    for name, ns in rows(inside, outside):
        print("%-16s %7.0f ns  %5.2f x" % (name, ns - before[name], (ns - before[name]) / clocks))
