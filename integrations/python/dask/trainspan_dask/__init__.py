"""A report of a job whose traces are too many for one machine, made on a Dask cluster.

    from dask.distributed import Client
    from trainspan_dask import report

    client = Client("scheduler:8786")
    print(report(["/traces/node0000", "/traces/node0001"]))

A part is a folder or a file that `trainspan trace digest` takes, or a list of them, at a path
that is the same on all workers; all files of one process are in one part. Each part
becomes a digest on the worker that gets it, digests become one in a tree, and one worker
reports what it says: byte for byte what `trainspan report` says of all parts. Digests
travel through Dask and need no folder that workers share. What a worker had when it died
is made again by others. Dask's dashboard shows the tasks: digest-part, digest-aggregate,
report_of.

All of it is work of the command, which is the one of the worker's wheel unless `command`
is the path of another. A command that fails is a RuntimeError with what it said.
"""

import os
import shutil
import subprocess
import tempfile
from functools import partial

import dask.bag


def report(parts, *options, command=None, split_every=8, **compute):
    """What `trainspan report` prints of all parts, as text: JSON unless options, those of
    the command, say otherwise. split_every is how many digests become one at a time;
    compute is for dask.compute, such as retries or scheduler."""
    whole = bag(parts, command=command, split_every=split_every)
    return whole.apply(partial(report_of, options or ("--json",), command)).compute(**compute)


def digest(parts, output, command=None, split_every=8, **compute):
    """Writes one digest of all parts to a file of this machine: for several reports, and
    for `trainspan trace digest` with those of other parts. It replaces the file."""
    whole = bag(parts, command=command, split_every=split_every).compute(**compute)
    part = "%s.%d.part" % (output, os.getpid())
    with open(part, "wb") as f:
        f.write(whole)
    os.replace(part, output)


def bag(parts, command=None, split_every=8):
    """The digest of all parts as bytes that Dask has still to make, a dask.bag.Item."""
    parts = [[p] if isinstance(p, (str, os.PathLike)) else list(p) for p in parts]
    if not parts:
        raise ValueError("trainspan: no parts are given; name directories of traces")
    parts = dask.bag.from_sequence(parts, partition_size=1)
    return parts.reduction(partial(digest_of_part, command), partial(merge, command), split_every=split_every, name="digest")


def digest_of_part(command, parts):
    (paths,) = parts
    with tempfile.TemporaryDirectory(prefix="trainspan-") as at:
        return made(command, at, [os.fspath(p) for p in paths])


def merge(command, digests):
    with tempfile.TemporaryDirectory(prefix="trainspan-") as at:
        return made(command, at, stored(at, digests))


def report_of(options, command, whole):
    with tempfile.TemporaryDirectory(prefix="trainspan-") as at:
        return run(command, "report", *options, "--", *stored(at, [whole])).decode()


def made(command, at, paths):
    out = os.path.join(at, "all.digest")
    run(command, "trace", "digest", "-o", out, "--", *paths)
    with open(out, "rb") as f:
        return f.read()


def stored(at, digests):
    for i, digest in enumerate(digests):
        path = os.path.join(at, "%d.digest" % i)
        with open(path, "wb") as f:
            f.write(digest)
        yield path


def run(command, *args):
    path = command or installed()
    done = subprocess.run([path, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        raise RuntimeError("trainspan %s: status %d: %s" % (" ".join(args), done.returncode, done.stderr.decode(errors="replace").strip()))
    return done.stdout


def installed():
    try:
        from trainspan.__main__ import command

        path = command()
    except ImportError:
        path = shutil.which("trainspan")
    if path is None:
        raise RuntimeError("trainspan: the command is not installed on this worker: install the wheel there with pip, or pass its path with command=")
    return path
