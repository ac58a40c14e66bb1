"""Writes the spans of this process to a ring buffer in shared memory. Its format is in
docs/maintain/ring.md.

No function raises an error of its own, and none waits for a reader. The records survive the
death of the process, because the pages belong to the file. The functions are closures over the
state of the ring buffer, which makes them fast: _build makes them once, and they become the
functions of the module.

The fast paths signal exceptional cases by an exception: the first use opens the ring buffer, a
full region raises StopIteration, a name without a cell IndexError. A signal handler may raise
an exception at any point: it reaches the program, and the interrupted operation is undone or
completed.
"""

import itertools
import mmap
import os
import struct
import sys
import threading
import time

from . import deep, environ, passing, plain, quiet, traced_as

MAGIC = b"TSRING\0\2"  # the last byte is the version
SLOT = 64
SLOTS = 8192  # in a region
REGION = SLOT * SLOTS
REGIONS = 8192
FEW = 63  # regions of 32 MiB including the head: without a reader, or with limited address space
HEAD = 4096  # the table of regions follows
CELLS = HEAD + 16 * REGIONS
THREADS, NAMES = 16, 1024  # that have cells
MOST_NAMES, MOST_TEXT, LONGEST = 10000, 8 << 20, 200  # names, bytes of the side file, characters of a name
LASTING = 1 << 20  # from here on count the names whose spans have a begin slot
CHUNK = 40  # bytes of text in a slot
STEP = 16  # words of a step
STEPS = 1 << 63  # of an activation whose region has steps
MAX_TEXT = 16384
LONGEST_META = 4096  # characters of a text
# How struct and memoryview call a word and a number: a long, where that has eight bytes, is
# written faster than a long long.
W, I = "LQ"[struct.calcsize("L") < 8], "lq"[struct.calcsize("l") < 8]
CALLED = "called"  # the variant of names whose spans callbacks also make
LATEST = 1 << 62  # nanoseconds: no time is later, and no number greater

BEGIN, POINT, TEXT, POSITION, UPDATE, STATE, CALL, NOTE, DROP, FILE = (k << 32 for k in range(1, 11))
CROSSED = 1 << 40  # flag: ended before what was started inside it
FAILED = 1 << 41  # flag: ended with an exception
DATED = 1 << 42  # flag: ends later than it was written
NUMBERS = 1 << 43  # flag: a call on a file, with numbers in place of a text and a count

# trainspan.files replaces these functions and records their calls. The client calls the
# originals, so that its own calls are not recorded.
_open, _os_open, _scandir = open, os.open, os.scandir

_LASTING = ("ai_root", "pipeline", "checkpoint")
# A mapping of a file on these is on this node, and its space can be allocated.
_LOCAL = ("tmpfs", "devtmpfs", "ramfs", "ext2", "ext3", "ext4", "xfs", "f2fs", "overlay")
_FREE = "t" in getattr(sys, "abiflags", "")
_GIVEN = environ.get("TRAINSPAN_RING")  # the folder for ring buffers under trainspan run
# Variables in which launchers describe the process.
_PLACE = """FLUX_JOB_ID FLUX_JOB_SIZE FLUX_TASK_LOCAL_ID FLUX_TASK_RANK GROUP_RANK GROUP_WORLD_SIZE JOB_COMPLETION_INDEX
LOCAL_RANK LOCAL_WORLD_SIZE LSB_JOBID NODE_RANK OMPI_COMM_WORLD_LOCAL_RANK OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE
PBS_JOBID PMIX_NAMESPACE PMIX_RANK PMI_RANK PMI_SIZE RANK SLURM_ARRAY_TASK_ID SLURM_JOB_ID SLURM_LOCALID SLURM_NODEID
SLURM_NTASKS SLURM_PROCID SLURM_RESTART_COUNT SLURM_STEP_ID TORCHELASTIC_RESTART_COUNT TORCHELASTIC_RUN_ID
TRAINSPAN_ATTEMPT TRAINSPAN_JOB TRAINSPAN_WORLD_SIZE WORLD_SIZE DFTRACER_INC_METADATA DFTRACER_TRACE_COMPRESSION""".split()


def _filesystem(path):
    """Returns the type of the file system of path."""
    path = os.path.realpath(path) + "/"
    best, kind = "", "unknown"
    with open("/proc/mounts", encoding="utf-8", errors="surrogateescape") as f:
        for line in f:
            at, name = line.split(" ")[1:3]
            at = at.replace("\\040", " ")
            if len(at) >= len(best) and path.startswith(at.rstrip("/") + "/"):
                best, kind = at, name
    return kind


def _refused(why):
    """Tells `trainspan run` why this process could not make a ring buffer, once for all of its
    processes: its last lines show it."""
    if _GIVEN:
        try:
            path = os.path.join(_GIVEN.split(os.pathsep)[-1], "unrecorded.names")
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.write(fd, why.encode("utf-8", "replace")[:1000])
            finally:
                os.close(fd)
        except OSError:
            pass  # another process has told it, or there is no room for this either


def _within(what, size):
    """Returns whether a limit of the process allows size bytes: exceeding that of a file ends
    the process. The module resource could be one of the program's, so it is not used."""
    with _open("/proc/self/limits", encoding="ascii") as f:
        value = next((line[len(what):].split()[0] for line in f if line.startswith(what)), "unlimited")
    return value == "unlimited" or size <= int(value)


def _folders(log):
    """Returns the folders in which a ring buffer may be, and the prefix of its name: the folders
    of `trainspan run`, or beside the program's log file, or the folder of temporary files."""
    if _GIVEN:
        return [f for f in _GIVEN.split(os.pathsep) if f], "py"
    import tempfile

    log = os.path.abspath(log or "trace")
    log = log[:-7] if log.endswith(".pfw.gz") else log[:-4] if log.endswith(".pfw") else log
    os.makedirs(os.path.dirname(log), exist_ok=True)
    return [os.path.dirname(log), "/dev/shm", tempfile.gettempdir()], os.path.basename(log)


@quiet
def _announces(folder, stem):
    """Returns whether this process reports where the records of the program are: the first one
    that a launcher started on this node does, unless its parent records there too."""
    parent = "%s-%d-" % (stem, _parent() or os.getppid())
    first = all(os.environ.get(key, "0") == "0" for key in _PLACE if "LOCAL" in key and "SIZE" not in key)
    return first and not any(name.startswith(parent) for name in os.listdir(folder))


@quiet
def _parent():
    """Returns the parent process: with forkserver, the one for which multiprocessing started
    it."""
    made = sys.modules.get("multiprocessing.process")
    parent = made and made.parent_process()
    return parent and parent.pid


def _who():
    """Returns the description of the process for the side file."""
    # Nothing of the command line, which may hold secrets anywhere: no value of an
    # argument may be taken for the program, nor the text of python -c.
    main = sys.modules.get("__main__")
    path, module = getattr(main, "__file__", None) or "DEFAULT", getattr(main, "__spec__", None)
    if module:  # python -m, or a folder or an archive
        path = os.path.dirname(path) if module.name == "__main__" else module.name.replace(".__main__", "")
    program = os.path.basename(path)
    who = {"host": os.uname().nodename, "exec": program, "command": sys.executable or "python",
           "ppid": _parent() or os.getppid(), "dir": quiet(os.getcwd)() or "", "python": sys.version.split()[0]}  # fmt: skip
    # Its id is one of this namespace, which may be that of a container.
    who["pidns"] = quiet(lambda: os.stat("/proc/self/ns/pid").st_ino)() or 0
    who["env"] = {key: os.environ[key] for key in _PLACE if key in os.environ}
    return who


def _build():
    clock = time.monotonic_ns
    wanted = on = False
    offset = time.time_ns() - clock()  # the wall clock is read once
    lock = threading.RLock()
    words = side = inode = path = log = local = threads = None
    beside = False  # the ring buffer is beside the program's log file
    opening = 0  # the thread that opens the ring buffer
    closed = [True]  # until it is open: the thread that removes the element (atomically) opens it
    growing = False
    losses = itertools.count()  # its next number is the number of lost records of this process
    activation, forks, told = 0, 0, 0  # told: bytes of the side file
    current = [0, 0]  # regions in use: for slots, for steps
    pages = []  # mappings of the file, and their offsets in it
    lanes = {}  # thread ids from the program
    fetching = []  # name and category of waits that the program writes at their end
    known, named = {}, {}  # ids by name, category, variant and arguments; the arguments of name by id
    hooked, theirs = set(), set()  # name and category of the hooks' spans, and of the program's
    lines = []  # of the side file, written again for the ring buffer of a forked process
    short, lasting = itertools.count(1).__next__, itertools.count(LASTING).__next__
    pack = struct.Struct(W + W + "II32x" + W).pack_into
    pack_more = struct.Struct(W + W + "II" + I + I + "16x" + W).pack_into
    pack_text = struct.Struct(W + "II40s" + W).pack_into
    pack_call = struct.Struct(W + W + "II" + 4 * I + W).pack_into
    no_cells = [0] * NAMES
    tracked = {"trackfd": False} if sys.version_info >= (3, 13) else {}
    kept = []  # mappings whose descriptor is another file's: their end would close it

    def exhausted():
        raise StopIteration

    class Slots:
        """State for hooks that write slots themselves: the function that returns the words of a
        step, whether the program sets the position of the training, whether it uses names of
        the hooks' spans, and the function that is called when nothing more is recorded."""

        __slots__ = "step", "placed", "shared", "stopped"

    slots = Slots()
    slots.placed = slots.shared = False
    slots.stopped = bool
    take = slots.step = exhausted  # take returns a mapping and the offset in it of a free slot

    def register():
        """Makes the state of this thread, which is local.s: number, cells, then the open spans
        as (start, name, this list, whether they end before the enclosing ones do). A signal
        handler that runs meanwhile has no state, so its span is lost: if it made one, handlers
        that come faster than this ends would never end."""
        if hasattr(local, "registering"):
            return lose()
        local.registering = True
        try:
            enroll()
        finally:
            local.__dict__.pop("registering", None)

    def enroll():
        number = threads()
        cells = no_cells
        if number < THREADS:
            at = CELLS // 8 + number * NAMES
            cells = words[at : at + NAMES]
        # threading.current_thread would make an object for a thread of C, which stays
        name = getattr(threading._active.get(threading.get_ident()), "name", "")
        add_line({"t": number, "tid": threading.get_native_id(), "thread": name})
        local.__dict__.setdefault("s", [number, cells])  # a signal handler may have made it

    def encode(values):
        """Returns JSON, by a module that is loaded when there is something to record."""
        nonlocal encode
        from json import encoder

        any_value = encoder.JSONEncoder(separators=(",", ":"), default=plain, allow_nan=False).encode
        flat, encode = {int, str, float, bool}, any_value
        try:
            # JSONEncoder makes one at each call, which also searches for cycles.
            quick = encoder.c_make_encoder(None, plain, encoder.encode_basestring_ascii, None, ":", ",", False, False, False)
            quick({}, 0)
        except TypeError:  # another Python
            return encode(values)

        def encode(values):
            for value in values.values():
                if type(value) not in flat:
                    return any_value(values)
            return "".join(quick(values, 0))

        return encode(values)

    # The ring buffer.

    def add_line(record, keep=False, most=MOST_TEXT):
        """Adds a line to the side file, before the first slot that needs it."""
        nonlocal told
        text = encode(record).encode("utf-8", "replace") + b"\n"
        if side is not None:
            if told + len(text) > most or not _within("Max file size", told + len(text)):
                lose()
                raise OSError("the side file of the ring is full")
            if not ours():
                reopen()
            told += os.write(side, text)
        if keep:
            lines.append(text)

    def ours():
        """Returns whether the descriptor of the side file is still that of the file: a program
        that closes all files, as a daemon does, opens its own files with the same
        descriptors."""
        return identity() == inode

    @quiet
    def identity():
        stat = os.fstat(side)
        return stat.st_dev, stat.st_ino

    def reopen(flags=0):
        nonlocal side, inode
        side = _os_open(path[:-5] + ".names", os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
        inode = identity()

    def allocate(fd, at, size):
        """Allocates space: a write to a mapping without it would end the process with SIGBUS on
        a full file system. All ring buffers of a folder together may use a quarter of the
        free space, and at most 8 MiB of a small file system, which others need; beside a log
        file, where the folder may be large, this limit is for each ring buffer."""
        stat = os.fstatvfs(fd)
        small = stat.f_blocks * stat.f_frsize < 1 << 30
        used = at
        if small or not beside:
            used = 0
            with _scandir(os.path.dirname(path)) as folder:
                for e in folder:
                    if e.name.endswith((".ring", ".names")):
                        try:
                            used += e.stat(follow_symlinks=False).st_blocks * 512
                        except FileNotFoundError:
                            pass  # its process has ended, and its records were read
        most = (stat.f_bavail * stat.f_frsize + used) // 4
        if used + size > (min(most, 8 << 20) if small else most):
            raise OSError("not enough free space")
        if not _within("Max file size", at + size):
            raise OSError("the file size limit of the process (ulimit -f) is too small")
        os.posix_fallocate(fd, at, size)

    def extend(fd, size):
        """Maps the next piece of the file: the allocated size first, then twice as much each
        time, at most 16 MiB."""
        at = sum(len(page) for page, _ in pages)
        size = min(max(at, size), 32 * REGION)
        if not _within("Max file size", at + size):
            raise OSError("the file size limit of the process (ulimit -f) is too small")
        os.ftruncate(fd, at + size)  # Python cannot map beyond the end
        try:
            pages.append((mmap.mmap(fd, size, offset=at, **tracked), at))
        finally:
            os.ftruncate(fd, at)

    def create(folder, stem):
        nonlocal words, path
        kind = _filesystem(folder)
        if kind not in _LOCAL:
            raise OSError("unsupported file system type " + kind)
        path = os.path.join(folder, "%s-%d-%x.ring" % (stem, os.getpid(), time.time_ns()))
        flags = os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            fd = os.open(path, os.O_RDWR | flags, 0o600)
        except FileExistsError:
            path = None  # it belongs to another program
            raise
        try:
            extend(fd, 4 * REGION)
            allocate(fd, 0, 2 * REGION)  # head and first region
            reopen(os.O_CREAT | os.O_EXCL)
        finally:
            os.close(fd)
        words = memoryview(pages[0][0])[:REGION].cast(W)
        with open("/proc/self/stat", "rb") as f:  # pid and start time identify the process
            ticks = int(f.read().rsplit(b")", 1)[1].split()[19])
        at = clock()
        values = (SLOT, SLOTS, REGIONS, HEAD, CELLS, THREADS, NAMES, REGION,
                  os.getpid(), at + offset, at, sys.hexversion, forks, ticks)  # fmt: skip
        for i, value in enumerate(values):
            words[1 + i] = value

    def forget():
        """Deletes a ring buffer that could not be created."""
        nonlocal words, side, path, activation, take
        current[:] = 0, 0
        if path is not None:
            for name in (path, path[:-5] + ".names"):
                if os.path.exists(name):
                    os.unlink(name)
        if side is not None:
            os.close(side)
        words = side = path = None
        activation, take = 0, exhausted
        slots.step = exhausted
        pages.clear()

    def open_ring():
        nonlocal on, offset, local, threads, told, beside
        why, said = "", environ.get("TRAINSPAN_VERBOSE") == "1"
        try:
            offset = time.time_ns() - clock()
            folders, stem = _folders(log)
            for folder in folders:
                beside = not _GIVEN and folder is folders[0]
                try:
                    create(folder, stem)
                    break
                except Exception as e:
                    forget()
                    passing(e)
                    why += "%s: %s; " % (folder, e)
            else:
                raise OSError(why)
            told = os.write(side, encode({"who": _who()}).encode("utf-8", "replace") + b"\n" + b"".join(lines))
            threads = locked(itertools.count().__next__)
            lanes.clear()
            words[33] = 1
            activate(0, 0)
            words[0] = int.from_bytes(MAGIC, "little")
            local = threading.local()  # a subclass would be slower to read
            register()
            publish()
            if beside or _GIVEN:
                why = "recording to " + path
            else:
                from shlex import quote

                said = said or _announces(folder, stem)
                rings, out = quote(os.path.join(folder, stem)) + "-*.ring", quote(folders[0])
                why += "the records are in %s: import them on this node with trainspan trace import %s -o %s, then delete them; TRAINSPAN_RING chooses another folder" % (folder, rings, out)
        except BaseException as e:
            local = None
            forget()
            closed.append(True)  # if it was interrupted, a later call tries again
            passing(e)
            closed.clear()
            on = False
            why = str(e).rstrip("; ")
            _refused(why)
            why = "nothing is recorded: %s; see trainspan help a-python-process-is-not-recorded" % why
            said = said or not _GIVEN and not _parent()
        if said:
            sys.stderr.write("trainspan[%d]: %s\n" % (os.getpid(), why))

    def slots_of(region):
        """Returns the mapping of a region, and its offset there."""
        at = (region + 1) * REGION
        return next((page, at - first) for page, first in reversed(pages) if first <= at)

    def activate(region, steps):
        """Continues in an empty region, with slots or with steps."""
        nonlocal activation, take
        page, at = slots_of(region)
        if steps:
            ends = range(at // 8 + STEP, (at + REGION) // 8 + 1, STEP)
            fresh = map(memoryview(page).cast(I).__getitem__, map(slice, range(at // 8, (at + REGION) // 8, STEP), ends))
        else:
            fresh = zip(itertools.repeat(page), range(at, at + REGION, SLOT))
        fresh, held = locked(fresh.__next__), (activation + 1) | steps
        # No call from here on: the assignments belong together, and a signal handler could run
        # in a call.
        words[HEAD // 8 + 2 * region] = current[steps > 0] = held
        words[32] = activation = activation + 1
        if steps:
            slots.step = fresh
        else:
            take = fresh

    def locked(f):
        """Wraps f so that two threads never get the same value: a call into C is atomic under
        the interpreter's lock."""

        def one():
            with lock:
                return f()

        return one if _FREE else f

    def grow(steps):
        """Finds another region: one that the reader has emptied or that was never used, a new
        one or, without space, the one before the last."""
        used, table = words[33], HEAD // 8
        if len(local.s) > 512:  # interrupted ends
            del local.s[2:]
        number = {region: words[table + 2 * region] for region in range(used)}
        for region, n in number.items():
            if n not in current and n in (0, words[table + 2 * region + 1]):
                break
        else:
            try:
                region = used
                if used >= (REGIONS if _GIVEN and _within("Max address space", 1 << 50) else FEW):
                    raise OSError("the ring has its largest size")
                fd = _os_open(path, os.O_RDWR | os.O_CLOEXEC)
                try:
                    if slots_of(used)[1] >= len(pages[-1][0]):
                        extend(fd, 0)
                    allocate(fd, (used + 1) * REGION, REGION)
                finally:
                    os.close(fd)
                words[33] = used + 1
                return activate(used, steps)
            except Exception as e:
                passing(e)
                # Not the region of the open step; the current one if there is no other.
                usable = [r for r in number if number[r] != current[not steps]]
                if steps and not any(number[r] & STEPS for r in usable):
                    raise  # slots need a region
                region = max(usable, key=lambda r: (number[r] not in current, number[r] & STEPS == steps, number[r]))
                words[table + 2 * region] = n = 0
        if n == 0 or (n | steps) & STEPS:  # else the reader has cleared the slots
            page, at = slots_of(region)
            page[at : at + REGION] = bytes(REGION)
        activate(region, steps)

    chains = locked(itertools.count(1).__next__)

    def slot(steps=0):
        """Returns a slot if the fast path found none; or the words of a step."""
        nonlocal growing
        for _ in range(100):  # other threads may fill a region before this one runs again
            was = slots.step if steps else take
            try:
                return was()
            except StopIteration:
                pass
            with lock:
                if growing or not ready():  # growing: in a signal handler during grow
                    break
                if (slots.step if steps else take) is was:
                    growing = True
                    try:
                        grow(steps)
                    finally:
                        growing = False
        if words is not None and not steps:
            lose()
        raise OSError("no slot")

    def ready():
        """Returns whether there is a ring buffer, and this thread has its state. The first call
        opens it, if a folder is available."""
        nonlocal opening
        if on and local is None and (log or _GIVEN):
            with lock:
                try:
                    closed.pop()
                except IndexError:
                    if local is None:  # in a signal handler while the ring buffer is opened
                        next(losses)
                else:
                    opening = threading.get_ident()
                    try:
                        open_ring()
                    finally:
                        opening = 0
        if not on or local is None:
            return False
        if not hasattr(local, "s"):
            register()
        return hasattr(local, "s")

    def busy():
        """Returns whether this thread opens the ring buffer: the files that it uses are not the
        program's."""
        return opening == threading.get_ident()

    def chain_of(data):
        """Writes bytes into separate slots; returns their id."""
        chain = chains()
        for at in range(0, len(data), CHUNK):
            page, place = slot()
            pack_text(page, place, chain, at, len(data), data[at : at + CHUNK], TEXT | 1)
        return chain

    def encoded(values):
        """Returns the encoded arguments. If they are too long, texts are shortened, then further
        arguments are left out; if that is not enough, they are empty, and counted as lost."""
        try:
            for most, items in (None, None), (4096, None), (1024, None), (200, 32), (40, 32):
                try:
                    data = encode(values if most is None else shortened(values, most, items))
                except ValueError:  # not a number
                    continue
                if len(data) <= MAX_TEXT:
                    return data.encode()  # plain ASCII
            if words is not None:
                lose()
        except Exception as e:
            passing(e)
        return b""

    def shortened(value, most, items, depth=16):
        """Returns a copy with shorter texts, in which numbers that JSON lacks are texts."""
        if isinstance(value, str):
            return value[:most]
        if isinstance(value, float) and value - value != 0:
            return str(value)
        if not isinstance(value, (dict, list, tuple)):
            return value
        if not depth:
            return "..."
        if isinstance(value, dict):
            pairs = itertools.islice(list(value.items()), items)
            return {k[:LONGEST] if isinstance(k, str) else k: shortened(v, most, items, depth - 1) for k, v in pairs}
        return [shortened(v, most, items, depth - 1) for v in itertools.islice(value, items)]

    def text(values):
        """Writes arguments, which may be encoded, into separate slots; returns their id, or 0."""
        try:
            data = values if type(values) is bytes else encoded(values)
            return chain_of(data) if data else 0
        except Exception as e:
            passing(e)
            return 0

    def write(word, start, end, thread, depth, args=None, value=0):
        if not (0 <= start < LATEST and 0 <= end < LATEST):
            raise ValueError("no time")  # before a slot is reserved, which would count as lost
        if local is None:
            raise ValueError("it began before a fork")
        chain = text(args) if args else 0
        page, place = slot()
        pack_more(page, place, start, end, thread, depth, chain, value, word | DATED if end > clock() else word)

    # Spans.

    @quiet
    def enabled():
        """Returns whether spans are recorded."""
        return on and ready()

    def now():
        """Returns nanoseconds since the epoch, by the clock of the spans."""
        return clock() + offset

    def name(name, cat, variant=0, above=0, args=None):
        """Returns the id of a name. Variants of a name have separate ids; above is the parent
        node, for update and switch. With args, a tuple of pairs, it is the id of a name
        whose spans all have these arguments, from their start on; with the ids of its parts
        it is that of a step."""
        try:
            key = (name, cat, variant, args)
            n = known.get(key)
        except TypeError:
            key = (str(name), str(cat), 0, None)
            n = known.get(key)
        return n or add_name(*key, above) or LASTING - 1  # of no name: the reader counts it

    @quiet
    def add_name(name, cat, variant, args, above):
        name, cat = str(name)[:LONGEST], str(cat)[:LONGEST]
        if len(known) >= MOST_NAMES:  # one for all further names of a category
            if len(known) == MOST_NAMES:
                add_line({"meta": "names_bounded", "value": MOST_NAMES}, True)
            name, cat, variant, args = "(other)", cat if len(known) < MOST_NAMES + 100 else "(other)", 0, None
        key = (name, cat, variant, args)
        with lock:
            n = known.get(key)
            if n is None:
                n = lasting() if cat in _LASTING and not name.endswith(".iteration") else short()
                line = {"n": n, "name": name, "cat": cat, "above": above}
                if args:
                    line.update({"parts": args} if type(args[0]) is int else {"args": dict(args)})
                if type(variant) is tuple and variant[0] == "numbers":
                    line["numbers"] = variant[1]
                add_line(dict(line, calls=1) if variant == CALLED else line, True)
                known[key], named[n] = n, (name, cat, variant, above, args)
                mine, others = (theirs, hooked) if variant != "torch" else (hooked, theirs)
                mine.add((name, cat))
                slots.shared = slots.shared or (name, cat) in others
        return n

    @quiet
    def push(n, at, args):
        if not ready():
            return None
        s = local.s
        t = clock() if at is None else at - offset
        if n < NAMES:
            s[1][n] = t
        token = (t, n, s, False)
        try:
            s.append(token)
            if n >= LASTING:
                write(n | BEGIN, t, 0, s[0], len(s) - 1, args)
        except BaseException as e:
            passing(e, drop, token)
        return token

    def start(n, at=None, args=None, nested=False):
        """Starts a span of this thread, now or at an earlier time; returns the argument of end.
        Arguments are kept for spans that have a begin slot. nested: it ends before the spans
        around it do."""
        if not on:
            return None
        try:
            if at is None and args is None:
                s = local.s
                s[1][n] = t = clock()
                token = (t, n, s, nested)
                s.append(token)
                return token
        except deep:
            return None
        except BaseException as e:
            passing(e, undo, n)
        return push(n, at, args)

    @quiet
    def step(n, at=None):
        """Begins a step, now or at an earlier time: returns its words and the token that ends
        it. n is the id of a name with parts."""
        if not ready():
            return None
        v, s = slot(STEPS), local.s
        v[0], v[4], v[7] = n, s[0] | len(s) << 32, n
        v[1] = v[2] = clock() if at is None else at - offset
        token = (None, n, s, False)
        s.append(token)
        return v, token

    @quiet
    def end_step(v, token, w, at=None, step=0, samples=0):
        """Ends a step by the name w, or drops it if w has DROP. After its end the position of
        the training is step, unless the program sets the position."""
        t1, s = clock() if at is None else at - offset, token[2]
        i = find(s, token, 0)
        w |= remove(s, i) if i else 0
        if w != token[1]:
            v[4], v[7], v[0] = s[0] | (i or len(s)) << 32, token[1], w
        v[5], v[6] = 0 if slots.placed else step, samples
        v[3] = t1

    @quiet
    def undo(n):
        """Removes the start of a span that was interrupted."""
        top = local.s[-1]
        if top[1] == n and top[0] == local.s[1][n]:
            drop(top)

    @quiet
    def lose():
        """Counts the records that an interrupted end may have lost."""
        next(losses)
        publish()

    def publish():
        """Writes the number of losses into the ring buffer. A signal handler or another thread
        may count between any two operations, so it writes until the number no longer
        changes."""
        written = None
        while written != repr(losses):
            written = repr(losses)  # "count(5)"
            words[35] = int(written[6:-1])

    def end(token, args=None, n=None, at=None, count=0):
        """Ends a span, with arguments and a count, by another name if n is given, and at an
        earlier time if one is given. Returns the time of its end by the clock, None if that was
        not now."""
        if token is None:
            return None
        try:
            t, w, s, _ = token
            top = s.pop()
            t1 = clock()
            if top is token and n is None and at is None:
                if args:
                    chain = text(args) if local is not None else 0
                    page, place = take()
                    pack_more(page, place, t, t1, s[0], len(s), chain, count, w)
                    return t1
                page, place = take()
                if count:
                    pack_more(page, place, t, t1, s[0], len(s), 0, count, w)
                else:
                    pack(page, place, t, t1, s[0], len(s), w)
                return t1
            s.append(top)
            finish(s, token, t1 if at is None else at - offset, args, n or w, count)
            return t1 if at is None else None
        except StopIteration:
            late(t, t1, s[0], len(s), chain if args else 0, count, w)
            return t1
        except deep:
            if words is not None:
                next(losses)
                words[35] += 1  # no space for a call
        except BaseException as e:
            passing(e, lose)

    @quiet
    def stop(n, args=None, failed=None, token=None):
        """Ends the innermost span n of this thread, or the one of a token."""
        finish(local.s if token is None else token[2], token, clock(), args, n if failed is None else n | FAILED)

    @quiet
    def late(*values):
        """Writes a span for which the fast path found no slot, unless it began before a fork."""
        if local is not None:
            page, place = slot()
            pack_more(page, place, *values)

    def entry(e):
        """Returns an open span from the list of a thread: it is in a separate tuple there after
        a span below it has ended, so that its end is not missed."""
        return e[0] if e is not None and e[1] is None else e

    def nests(e):
        """Returns whether a span ends in the reverse order of its start: spans of the hooks, or
        those of with statements and decorators."""
        return (named.get(e[1]) or e)[2] == "torch" and "torch" or e[3]

    def find(s, token, n):
        for i in range(len(s) - 1, 1, -1):
            e = entry(s[i])
            if e is not None and (e is token or token is None and e[1] == n):
                return i
        return 0

    def tasks():
        """Returns whether this thread runs an event loop, whose tasks end spans in any order."""
        events = sys.modules.get("asyncio.events")
        return events is not None and events._get_running_loop() is not None

    @quiet
    def holds(token):
        """Returns whether the span of a token is open."""
        return find(token[2], token, 0) > 0

    def remove(s, i):
        """Removes an open span; those above stay in the list, except for some whose end was
        interrupted."""
        if i < len(s) - 1:
            kind = nests(entry(s[i]))
            if kind is True and tasks():
                kind = None
            while kind and i < len(s) - 1 and s[-1] is not None and nests(entry(s[-1])) == kind:
                s.pop()
        if i < len(s) - 1:
            s[i] = None
            for j in range(i + 1, len(s)):
                if s[j] is not None:
                    s[j] = (entry(s[j]), None, None)
                    break
            return CROSSED
        s.pop()
        while len(s) > 2 and s[-1] is None:
            s.pop()
        return 0

    def finish(s, token, t1, args, w, count=0):
        i = find(s, token, w & ~FAILED)
        if i:
            t, was, _, _ = entry(s[i])
            if was < NAMES and was != w & ~FAILED:
                s[1][was] = 0  # ended by another name
            write(w | remove(s, i), t, t1, s[0], i, args, count)

    @quiet
    def drop(token):
        """Drops an open span. Spans that began inside it belong to the enclosing one."""
        s = token[2]
        i = find(s, token, 0)
        if i:
            write(token[1] | DROP | remove(s, i), token[0], clock(), s[0], i)

    @quiet
    def inside(n):
        """Returns whether the program has an open span on this thread with the name of the
        hooks' span n."""
        name, cat = named[n][:2]
        if (name, cat) in fetching:
            return True
        for e in local.s[2:]:
            e = entry(e)
            if e is not None and named[e[1]][:2] == (name, cat) and named[e[1]][2] != "torch":
                return True
        return False

    @quiet
    def fetches(n, yes):
        """Sets whether the program writes waits n at their end."""
        (fetching.append if yes else fetching.remove)(named[n][:2])

    @quiet
    def innermost():
        """Returns the token and the name of the innermost open span of this thread; None
        without one."""
        e = entry(local.s[-1]) if len(local.s) > 2 else None
        return None if e is None else (e, named[e[1]][0])

    @quiet
    def began_since(t):
        """Returns whether a span of this thread has begun since a time of the clock, by the
        cells."""
        return max(local.s[1]) > t

    @quiet
    def crowded():
        """Returns whether a span of the program is open on this thread."""
        return any(e is not None and named[entry(e)[1]][2] != "torch" for e in local.s[2:])

    @traced_as(lambda node: node)
    def enter(node):
        """__enter__ of a node: starts its span, unless the node is off."""
        global undo, push  # of the module: a call copies each variable of _build that it can access
        n = node._quick
        if n:
            try:
                s = local.s
                s[1][n] = t = clock()
                s.append((t, n, s, True))
                return node
            except deep:
                return node
            except BaseException as e:
                passing(e, undo, n)
        if n is not None and not node.off:
            push(node._n, None, None)
        return node

    @traced_as(lambda node, kind=None, error=None, trace=None: None)
    def leave(node, kind=None, error=None, trace=None):
        """__exit__ of a node: ends its innermost span of this thread, or drops it if the node
        is off now."""
        global abandon, stop, late, lose, text
        n = node._quick
        try:
            if n:
                s = local.s
                top = s.pop()
                t1 = clock()
                if top[1] is n and kind is None:
                    if node._data:
                        chain = text(node._data)
                        page, place = take()
                        pack_more(page, place, top[0], t1, s[0], len(s), chain, 0, n)
                        return
                    page, place = take()
                    pack(page, place, top[0], t1, s[0], len(s), n)
                    return
                s.append(top)
            elif n is None:
                return
            elif node.off:
                if local is not None and (node._n >= NAMES or local.s[1][node._n]):
                    abandon(node)
                return
            stop(node._n, node._extra, None if kind is None else True)
        except StopIteration:
            late(top[0], t1, s[0], len(s), chain if node._data else 0, 0, n)
        except deep:
            if words is not None:
                next(losses)
                words[35] += 1  # no space for a call
        except BaseException as e:
            passing(e, lose)

    @quiet
    def abandon(node):
        """Drops the innermost span of this thread of a node that is off now. If the thread has
        none, its cell becomes empty, so that no later call searches again."""
        s, n = local.s, node._n
        i = find(s, None, n)
        if i:
            return drop(entry(s[i]))
        if n < NAMES and s[1] is not no_cells:
            s[1][n] = 0
        if unused(n):
            node._quick = None
            if not node.off:  # it was switched on in the meantime
                node._set(node._wanted)

    @quiet
    def unused(n):
        """Returns whether no thread has an open span n, by the cells."""
        first = CELLS // 8 + n
        return local is None or n < NAMES and not no_cells[n] and not any(words[first : first + THREADS * NAMES : NAMES])

    @quiet
    def event(n, start_ns, end_ns, args=None, tid=None, lag=0):
        """Records a finished span. It is nested in the open spans of this thread; with tid, a
        number from the program, it is on a thread of that number: then lag is the time in ns
        from its launch to its start, if known."""
        if ready():
            s = local.s
            thread, depth = s[0], len(s)
            if tid is not None:
                thread, depth = lane(tid), 2
            write(n, start_ns - offset, end_ns - offset, thread, depth, args, lag)

    def lane(tid):
        thread = lanes.get(tid)
        if thread is None:
            thread = lanes[tid] = threads()
            add_line({"t": thread, "tid": int(tid), "lane": True})
        return thread

    @quiet
    def counted(n, t, token, count):
        """Ends an element of an iterator that began at t or with a token."""
        t1 = clock()
        if (local is None or token is None) and not ready():  # it may be the first of the thread
            return
        s = local.s if token is None else token[2]
        depth = len(s)
        if token is not None:
            depth = find(s, token, 0)
            if not depth:
                return
            n, t = n | remove(s, depth), token[0]
        write(n, t, t1, s[0], depth, None, count)

    @quiet
    def path_of(path):
        """Writes a path; returns its id for called, or 0."""
        return -chain_of(os.fsencode(path)[:MAX_TEXT]) if ready() else 0

    @quiet
    def file_of(number, path):
        """Records which file has a number until it is closed."""
        if ready():
            s = local.s
            path = -path_of(path)
            page, place = slot()
            pack_more(page, place, clock(), 0, s[0], len(s), path, number, FILE)

    def called(n, t, a, b, c, file):
        """Records a finished call on a file, which began at t by the clock. The three numbers
        are those of the name n, file is a number from file_of or a result of path_of."""
        try:
            t1 = clock()
            s = local.s
            page, place = take()
            pack_call(page, place, t, t1, s[0], len(s), a, b, c, file, n | NUMBERS)
        except deep:
            pass
        except Exception as e:
            passing(e)
            late_call(n, t, t1, a, b, c, file)

    @quiet
    def late_call(n, t, t1, a, b, c, file):
        if ready():
            s = local.s
            page, place = slot()
            pack_call(page, place, t, t1, s[0], len(s), a, b, c, file, n | NUMBERS)

    def switch(n, to):
        """Records that a node and those below it are switched on or off, for update."""
        mark(STATE, n, None, 0, to)

    def mark(kind, n, args=None, epoch=-1, step=-1):
        try:
            if ready():
                s = local.s
                if args:
                    epoch = text(args)
                page, place = slot()
                pack_more(page, place, clock(), 0, s[0], len(s), epoch, step, n | kind)
        except deep:
            pass
        except Exception as e:
            passing(e)

    def point(n, args=None):
        """Records an event at the current time."""
        mark(POINT, n, args, 0, 0)

    def failed(args):
        """Records an error that ends the process, or a child process."""
        mark(NOTE, name("error", "failure"), args, 0, 0)

    def position(epoch=None, step=None, inferred=False, n=0):
        """Sets the position of the training for later spans; None leaves a number unchanged. An
        inferred position is ignored after the program has set one. With n it applies to the
        spans of that node and those below it."""
        try:
            if inferred:
                if not slots.placed:
                    s = local.s
                    page, place = take()
                    pack_more(page, place, clock(), 0, s[0], len(s), epoch, step, POSITION)
                return
        except Exception as e:
            passing(e)
        try:
            slots.placed = slots.placed or not inferred
            mark(POSITION, n, None, *(-1 if v is None else min(max(int(plain(v)), -2), LATEST) for v in (epoch, step)))
        except Exception as e:
            passing(e)

    @quiet
    def meta(key, value):
        """Records metadata of the process."""
        if ready():
            # The other half is for names and threads, whose spans need their lines.
            add_line({"meta": key, "value": value[:LONGEST_META] if isinstance(value, str) else value}, False, MOST_TEXT // 2)

    def call(callback, args=None):
        """Records a callback of one-logger, for the recorder that reads the ring buffer."""
        if on:
            mark(CALL, name(callback, "call"), args, 0, 0)

    def start_call(n, callback, step):
        """Starts a span n and records its callback, an id with CALL, in one slot: an iteration,
        and the step that is the position of the training from then on."""
        if not on:
            return None
        slots.placed = True
        try:
            s = local.s
            s[1][n] = t = clock()
            token = (t, n, s, False)
            s.append(token)
            page, place = take()
            pack_more(page, place, t, 0, s[0], len(s) - 1, 0, step + 1, callback)
            return token
        except StopIteration:
            late(t, 0, s[0], len(s) - 1, 0, step + 1, callback)
            return token
        except BaseException as e:
            passing(e, undo, n)
        mark(CALL, callback & 0xFFFFFFFF, None, 0, step + 1)
        return start(n)

    def configure(path, force=False):
        """Sets the folder of the ring buffer without `trainspan run`."""
        nonlocal log, on, wanted
        log = log or path if force else path
        if force and closed:
            on = wanted = enable is None or wanted

    def disable():
        """Ends the recording."""
        nonlocal on, wanted, take
        on = wanted = False
        take = slots.step = exhausted
        slots.stopped()

    @quiet
    def close():
        """Records that the process ends normally, as far as it can tell."""
        if words is not None:
            words[34] = 1

    def child():
        """Runs after a fork: the mapping is the parent's."""
        nonlocal lock, words, side, path, local, take, activation, forks, on, growing, losses
        lock = threading.RLock()
        if local is not None:
            del getattr(local, "s", [])[2:]  # the parent records the spans that are open
        if side is not None:
            if ours():
                os.close(side)
            # Its file may belong to another process by now.
            kept.extend(page for page, _ in pages if not tracked and still(page) != (words[33] + 1) * REGION)
        pages.clear()
        words = side = path = local = None
        take = slots.step = exhausted
        current[:] = 0, 0
        activation, on, growing, losses = 0, wanted, False, itertools.count()
        closed[:] = (True,)
        forks += 1

    @quiet
    def still(page):
        return page.size()

    enable = os.environ.get("DFTRACER_ENABLE") or None
    wanted = on = enable.strip().lower() in ("1", "true", "on", "yes") if enable else bool(_GIVEN)
    return locals()


_made = _build()
for _name in """busy holds enabled encoded text now name start step end_step slots end stop drop inside innermost began_since crowded fetches enter leave undo push abandon late lose unused event counted path_of file_of
called mark switch point failed position meta call start_call configure
disable close clock""".split():
    globals()[_name] = _made[_name]
named, wanted = _made["named"], _made["wanted"]
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_made["child"])
del _made, _name
