"""Builds wheels: the client, and the command as a script of the wheel. They contain no time and
no data of the machine, so that the same input gives the same bytes.

    python3 wheels.py OUT VERSION NOTICES COMMAND-amd64 [COMMAND-arm64]
    python3 wheels.py OUT COMMAND

VERSION is the output of git describe, NOTICES a file with the licenses of the modules that the
commands link. `tools/release wheels` calls it this way; install.sh with the command of this machine
alone.
"""

import base64
import hashlib
import os
import platform
import re
import subprocess
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PACKAGES = ((HERE, "trainspan"), (HERE, "trainspan_torch"), (os.path.join(HERE, "dask"), "trainspan_dask"))
# A static program runs with any C library: it is compatible with both families of Linux, from the
# oldest that pip has a tag for.
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
TAGS = ("manylinux_2_17_{0}", "manylinux2014_{0}", "musllinux_1_1_{0}")
METADATA = """\
Metadata-Version: 2.4
Name: trainspan
Version: {version}
Summary: See where your training time goes and which rank is slow
License-Expression: Apache-2.0
{licenses}
Requires-Python: >=3.8
Project-URL: Source, https://github.com/trainspan/trainspan
Description-Content-Type: text/markdown

{readme}"""


def read(*path):
    with open(os.path.join(*path), "rb") as f:
        return f.read()


def fail(error):
    raise error


def source_version():
    return re.search(rb'\n__version__ = "(.+)"', read(HERE, "trainspan", "__init__.py")).group(1).decode()


def version_of(described):
    """Returns the version by PEP 440 for the output of git describe. None is a copy of the
    sources without their history."""
    if described is None:
        return source_version() + ".dev0"
    m = re.fullmatch(r"(?:v(\d+\.\d+\.\d+)(?:-(alpha|beta|rc)\.?(\d+))?(?:-(\d+)-g)?)?([0-9a-f]{7,40})?(-dirty)?", described)
    if not m or not described:
        raise ValueError("%r is not a version of git describe, such as v1.2.3, v1.2.3-rc.1, v1.2.3-4-gCOMMIT or COMMIT" % described)
    tag, stage, number, since, commit, dirty = m.groups()
    if not tag:
        tag = source_version() + ".dev0"
    pre = {"alpha": "a", "beta": "b", "rc": "rc"}[stage] + number if stage else ""
    local = ".".join((["g" + commit[:12]] if commit else []) + (["dirty"] if dirty else []))
    return tag + pre + (".post" + since if since else "") + ("+" + local if local else "")


def write(out, described, notices, command, machine):
    """Writes the wheel of a machine into the folder out and returns its name. Without notices
    it is only for this machine."""
    version = version_of(described)
    name = "trainspan-" + version
    tags = [t.format(machine) for t in TAGS]
    files = {}  # in the order of the wheel: code, the command, metadata
    for root, package in PACKAGES:
        for folder, _, names in sorted(os.walk(os.path.join(root, package), onerror=fail)):
            below = os.path.relpath(folder, root).replace(os.sep, "/")
            for file in sorted(names):
                if file.endswith((".py", ".pyi", "py.typed")):
                    files[below + "/" + file] = read(folder, file)
    files[name + ".data/scripts/trainspan"] = read(command)
    info = name + ".dist-info/"
    licenses = {"LICENSE": read(ROOT, "LICENSE")}
    if notices:
        licenses["THIRD-PARTY-NOTICES"] = read(notices)
    files.update((info + "licenses/" + file, text) for file, text in licenses.items())
    listed = "\n".join("License-File: " + file for file in licenses)
    files[info + "METADATA"] = METADATA.format(version=version, licenses=listed, readme=read(HERE, "README.md").decode()).encode()
    files[info + "WHEEL"] = "".join(["Wheel-Version: 1.0\nGenerator: trainspan\nRoot-Is-Purelib: false\n"] + ["Tag: py3-none-%s\n" % t for t in tags]).encode()
    record = "".join(
        "%s,sha256=%s,%d\n" % (path, base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode(), len(data)) for path, data in files.items()
    )
    files[info + "RECORD"] = (record + info + "RECORD,,\n").encode()
    wheel = "%s-py3-none-%s.whl" % (name, ".".join(tags))
    part = os.path.join(out, wheel + ".part")
    with zipfile.ZipFile(part, "w") as z:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.create_system = 3  # Unix, whose modes follow
            entry.external_attr = (0o100755 if "/scripts/" in path else 0o100644) << 16
            z.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)
    os.replace(part, os.path.join(out, wheel))
    return wheel


def git(*args):
    return os.fsdecode(subprocess.run(("git", "-C", ROOT) + args, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout).strip()


def describe():
    """Returns the output of git describe. None is a copy of the sources without their history,
    which may be in another repository."""
    try:
        if os.path.realpath(git("rev-parse", "--show-toplevel")) == os.path.realpath(ROOT):
            return git("describe", "--tags", "--match", "v*", "--always", "--dirty")
    except (OSError, subprocess.CalledProcessError):
        pass
    return None


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(write(sys.argv[1], describe(), None, sys.argv[2], platform.machine()))
        sys.exit()
    folder, described, notices = sys.argv[1:4]
    for path in sys.argv[4:]:  # …/linux_ARCH/trainspan
        machine = MACHINES[os.path.basename(os.path.dirname(path)).split("_")[1]]
        print(write(folder, described, notices, path, machine))
