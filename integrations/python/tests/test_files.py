"""Files below recorded folders: the program gets the same results as without the
recording."""

import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Each line is run, and its result or exception is printed. D is the folder.
SAME = r"""
import io, os, sys, pickle, inspect, shutil, tempfile, warnings, copy, mmap, pathlib, stat, codecs, gzip, zipfile
warnings.simplefilter("error"); warnings.simplefilter("ignore", ResourceWarning)
f = open(D + "/t", "w")
f.write("a\nb\n"), f.name, f.mode, f.encoding, f.line_buffering, f.closed, f.fileno() > 2
type(f), type(f.buffer), f.buffer.raw.mode, repr(f), repr(f.buffer), repr(f.buffer.raw), isinstance(f.buffer.raw, io.FileIO)
f.close(), f.closed
open(D + "/t").read(), open(D + "/t", "rb").read(), open(D + "/t", "rb", 0).read(), open(D + "/t", newline="").readlines()
list(open(pathlib.Path(D) / "t")), open(os.fsencode(D) + b"/t").read()
with_plus = open(D + "/t", "r+b"); type(with_plus)
with_plus.seek(2), with_plus.write(b"XY"), with_plus.tell(), with_plus.flush(), with_plus.close()
open(D + "/t", "ab", 16).raw.mode, open(D + "/n", "xb").raw.mode
open(D + "/t", "a+").buffer
open(D + "/t", "q")
open(D + "/t", "rw")
open(D + "/t", "rbt")
open(D + "/t", "rb", encoding="utf-8")
open(D + "/t", "r", 0)
open(D + "/t", "rb", 1).close()
open(D + "/t", "r", encoding="no-such")
open(D + "/t", mode=None)
open(D + "/t", errors="no-such").read()
open(D)
open(D + "/missing")
open(D + "/t", opener=lambda path, flags: os.open(path, flags)).read()
fd = os.open(D + "/t", os.O_RDWR)
open(fd, "rb", closefd=False).read(2), os.fdopen(fd, "r+b", closefd=False).raw.closefd, os.lseek(fd, 0, 0)
os.read(fd, 2), os.pread(fd, 1, 2), os.write(fd, bytearray(b"q")), os.pwrite(fd, memoryview(b"ab"), 0), os.fsync(fd), os.close(fd)
os.read(fd, 1)
os.read("x", 1)
os.read(1 << 40, 1)
os.close(-1)
sorted(os.listdir(D)), sorted(e.name for e in os.scandir(D)), os.stat(D + "/t").st_size, os.access(D, os.R_OK)
os.stat(D + "/t", dir_fd=None), os.stat(D + "/t", follow_symlinks=False) == os.lstat(D + "/t")
os.stat(D + "/missing")
os.rename(D + "/t", D + "/u"), os.replace(D + "/u", D + "/t"), os.mkdir(D + "/d"), os.rmdir(D + "/d")
os.unlink(D + "/missing")
with_dir = os.open(D, os.O_RDONLY); os.stat("t", dir_fd=with_dir).st_size, os.unlink("n", dir_fd=with_dir), sorted(os.listdir(with_dir)), os.close(with_dir)
pickle.loads(pickle.dumps(os.stat)) is os.stat, pickle.loads(pickle.dumps(open)) is open, copy.copy(os.read) is os.read, copy.deepcopy(open) is open
str(inspect.signature(os.stat)), str(inspect.signature(open)), os.stat.__name__, os.stat.__doc__[:4], callable(open), open is io.open
type("C", (), {"f": os.getcwd, "o": open, "s": os.stat})().s(D).st_mode, type("C", (), {"o": open})().o(D + "/t").read(1)
os.stat in os.supports_follow_symlinks, os.open in os.supports_dir_fd, os.listdir in os.supports_fd, shutil.rmtree.avoids_symlink_attacks
m = mmap.mmap(os.open(D + "/t", os.O_RDWR), 0); type(m) is mmap.mmap, type(m), hasattr(m, "__dict__"), isinstance(m, mmap.mmap), isinstance(b"", mmap.mmap), m[:1], len(m)
type("M", (mmap.mmap,), {})(-1, 4096)[:1], issubclass(int, mmap.mmap)
tempfile.NamedTemporaryFile(dir=D).file.raw.mode, tempfile.TemporaryFile(dir=D).read(), tempfile.mkstemp(dir=D)[0] > 0
gzip.open(D + "/z", "wb").write(b"x"), codecs.open(D + "/t", "r", "utf-8").read() if sys.version_info < (3, 14) else "aY"
shutil.copyfile(D + "/t", D + "/v")[-1], pathlib.Path(D, "v").read_text(), pathlib.Path(D, "v").stat().st_size, pathlib.Path(D, "v").unlink()
pathlib.Path(D, "w").write_bytes(b"1"), pathlib.Path(D, "w").rename(D + "/y").name, sorted(p.name for p in pathlib.Path(D).iterdir() if len(p.name) == 1)
stat.S_ISDIR(os.stat(D).st_mode), os.path.getsize(D + "/t"), os.path.exists(D + "/no"), sorted(next(os.walk(D))[1])
r, w = os.pipe(); os.write(w, b"ab"), os.read(r, 9), os.close(r), os.close(w)
"""

PROGRAM = r"""
import sys, re, shutil, os
D = sys.argv[1]
if sys.argv[2] == "seen":
    from trainspan import files
    files.install([D])
scope = {"D": D}
for line in sys.stdin.read().strip().split("\n"):
    try:
        first, _, last = line.rpartition(";")
        if line.startswith(("import", "warnings")) or " = " in line and not first:
            exec(line, scope); text = ""
        else:
            exec(first, scope)
            text = repr(eval(last.strip(), scope))
    except BaseException as e:
        trace, frames = e.__traceback__.tb_next, []
        while trace is not None and sys.version_info >= (3, 11):  # before, a traceback keeps what a function has raised again
            frames.append(trace.tb_frame.f_code.co_filename.rpartition("/")[2])
            trace = trace.tb_next
        text = "%s: %s %s" % (type(e).__name__, e, frames)
    text = re.sub(r"0x[0-9a-f]+|st_[a-z]*time\w*=\d+|st_ino=\d+|tmp\w+|(?<=fd=)\d+", "*", text.replace(D, "D"))
    print(line, "->", text)
"""


class Same(unittest.TestCase):
    def test_nothing_is_changed(self):
        shown = {}
        for how in ("plain", "seen"):
            with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as rings:
                env = {k: v for k, v in os.environ.items() if not k.startswith(("TRAINSPAN_", "DFTRACER_"))}
                env.update(PYTHONPATH=HERE, TRAINSPAN_RING=rings)
                command = [sys.executable, "-X", "utf8", "-c", PROGRAM, os.path.realpath(folder), how]
                done = subprocess.run(command, env=env, input=SAME, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=120)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                shown[how] = done.stdout.split("\n")
                self.assertEqual(bool(os.listdir(rings)), how == "seen")
        for plain, seen in zip(shown["plain"], shown["seen"]):
            self.assertEqual(plain, seen)
        self.assertGreater(len(shown["plain"]), 45)

    def test_off(self):
        program = "import sys, os, io\nbefore = os.read, open, io.open, sys.modules.get('mmap')\nfrom trainspan.dftracer import dftracer\n"
        check = "print('trainspan.files' in sys.modules, (os.read, open, io.open) == before[:3])"
        for text, more, want in (
            ("dftracer.initialize_log('x', None)\n", {}, "False True"),
            ("dftracer.initialize_log('x', '/data')\n", {"DFTRACER_DISABLE_IO": "1"}, "True True"),
            ("dftracer.initialize_log('x', '/data')\n", {"DFTRACER_ENABLE": "0"}, "False True"),
            ("dftracer.initialize_log('x', '/data')\n", {}, "True False"),
        ):
            with tempfile.TemporaryDirectory() as rings:
                env = dict({k: v for k, v in os.environ.items() if not k.startswith(("TRAINSPAN_", "DFTRACER_"))}, PYTHONPATH=HERE, TRAINSPAN_RING=rings, **more)
                done = subprocess.run([sys.executable, "-c", program + text + check], env=env, stdout=subprocess.PIPE, universal_newlines=True, timeout=120)
                self.assertEqual(done.stdout.strip(), want, (text, more))


if __name__ == "__main__":
    unittest.main()
