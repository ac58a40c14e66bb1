"""`python -m trainspan ...`: runs the command of the wheel that this interpreter has installed,
in any folder of scripts."""

import os
import shutil
import sys


def command():
    """Returns the path of the command, or None if the wheel has no command."""
    from importlib import metadata

    places = []
    try:
        for file in metadata.files("trainspan") or ():
            if file.name == "trainspan" and file.parent.name == "bin":
                places.append(os.fspath(file.locate()))
            elif file.name == "METADATA":  # pip --target moves scripts next to the packages
                places.append(os.path.join(os.path.dirname(os.path.dirname(os.fspath(file.locate()))), "bin", "trainspan"))
    except metadata.PackageNotFoundError:
        pass
    return next((p for p in places if os.access(p, os.X_OK)), shutil.which("trainspan"))


if __name__ == "__main__":
    path = command()
    if path is None:
        sys.exit("trainspan: the command is not installed; wheels exist for Linux only, `go build ./cmd/trainspan` builds it from source")
    os.execv(path, ["trainspan"] + sys.argv[1:])
