"""Reports a job with too many traces for one machine, on a Dask cluster.

    from dask.distributed import Client
    from trainspan_dask import report

    client = Client("scheduler:8786")
    print(report(["/traces/node0000", "/traces/node0001"]))

A part is a folder or a file that `trainspan trace digest` accepts, or a list of them, at a path
that is the same on all workers; all files of one process must be in one part. The worker of a
part makes its digest, digests are merged in a tree, and one worker makes the report: byte for
byte the output of `trainspan report` for all parts. Digests are sent through Dask and need no
folder that workers share. If a worker dies, others make its digests again. Dask's dashboard
shows the tasks: digest-part, digest-aggregate, report_of.

The command does the work. It is the one of the worker's wheel unless `command` is the path of
another. If it fails, the error is a RuntimeError with its message. Damaged and skipped files are
a RuntimeWarning on the worker, and remarks of the report.
"""

import os
import shutil
import subprocess
import tempfile
import warnings
from functools import partial

import dask.bag

MAGIC = b"trspdig\n"  # the beginning of a digest


def report(parts, *options, command=None, split_every=8, **compute):
    """Returns the output of `trainspan report` for all parts, as text: JSON unless options,
    which are those of the command, select another format. split_every is the number of
    digests that are merged at a time; compute has arguments for dask.compute, such as
    retries or scheduler."""
    whole = bag(parts, command=command, split_every=split_every)
    return whole.apply(partial(report_of, options or ("--json",), command)).compute(**compute)


def digest(parts, output, command=None, split_every=8, **compute):
    """Writes one digest of all parts to a file of this machine: for several reports, and for
    `trainspan trace digest` with digests of other parts. Of existing files, it replaces only a digest."""
    if os.path.exists(output):
        with open(output, "rb") as f:
            if f.read(len(MAGIC)) != MAGIC:
                raise FileExistsError("trainspan: %s exists and is not a digest; name another file" % os.fspath(output))
    whole = bag(parts, command=command, split_every=split_every).compute(**compute)
    part = "%s.%d.part" % (output, os.getpid())
    with open(part, "wb") as f:
        f.write(whole)
    os.replace(part, output)


def bag(parts, command=None, split_every=8):
    """Returns the digest of all parts as bytes, computed lazily: a dask.bag.Item."""
    if isinstance(parts, (str, os.PathLike)):
        parts = [parts]
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
    run(command, "trace", "digest", "-o", out, "--", *paths, output=out)
    with open(out, "rb") as f:
        return f.read()


def stored(at, digests):
    for i, digest in enumerate(digests):
        path = os.path.join(at, "%d.digest" % i)
        with open(path, "wb") as f:
            f.write(digest)
        yield path


def run(command, *args, output=None):
    """Returns the standard output of the command. With status 1 it has a result, on standard output
    or in the file output, and reports damaged or skipped files."""
    path = command or installed()
    done = subprocess.run([path, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        said = "trainspan %s: status %d: %s" % (" ".join(args), done.returncode, done.stderr.decode(errors="replace").strip())
        if done.returncode != 1 or not (done.stdout or output and os.path.exists(output)):
            raise RuntimeError(said)
        warnings.warn(said, RuntimeWarning, stacklevel=2)
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
