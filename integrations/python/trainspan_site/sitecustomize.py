"""Puts trainspan into every Python process below `trainspan run`.

Nothing is imported here but what the interpreter has loaded by now: a module of
the standard library that were, would hide one that the program calls the same.
The client is read, because its folder may be gone later, and runs when the
program imports it, or torch.

Python imports the first sitecustomize on its path, so this one imports the
program's own in its place: whatever that one raises, or that there is none, is
as it would be without this one. Nothing here may raise or print, and this file
is one for Python 2 as well.
"""

import os
import sys
import time  # a part of the interpreter


class _Client:
    """Finds the client's modules in memory, and has torch watched."""

    def __init__(self, folder):
        self.watching = False
        self.begun = time.monotonic_ns() if hasattr(time, "monotonic_ns") else 0
        # What trainspan run has said; the program may change its environment.
        self.environ = {key: value for key, value in os.environ.items() if key.startswith("TRAINSPAN_")}
        self.texts = {}
        for package in ("trainspan", "trainspan_torch"):
            inside = os.path.join(folder, package)
            for file in os.listdir(inside):
                name, end = os.path.splitext(file)
                if end == ".py":
                    with open(os.path.join(inside, file), "rb") as f:
                        self.texts[package if name == "__init__" else package + "." + name] = f.name, f.read()

    def find_spec(self, name, path=None, target=None):
        if name in self.texts:
            file = self.texts[name][0]
            if path is None:  # the program may have a module of that name, before this folder
                spec = sys.modules["_frozen_importlib_external"].PathFinder.find_spec(name)
                if spec is not None and spec.loader is not None and spec.origin != file:
                    return spec
            spec = sys.modules["_frozen_importlib"].ModuleSpec(name, self, origin=file)
            spec.has_location = True
            if "." not in name:
                spec.submodule_search_locations = [os.path.dirname(file)]
            return spec
        if name == "torch" and not self.watching:
            self.watching = True
            try:
                import trainspan_torch

                finder = trainspan_torch.install()
                return finder and finder.find_spec(name, path, target)
            except BaseException as e:
                try:
                    from trainspan import alien
                except ImportError:  # another module has that name
                    return None
                if alien(e):
                    self.watching = False
                    raise
        return None

    def create_module(self, spec):
        return None

    def get_code(self, name):  # python -m asks for it
        file, text = self.texts[name]
        return compile(text, file, "exec")

    def exec_module(self, module):
        exec(self.get_code(module.__name__), module.__dict__)
        if module.__name__ == "trainspan":
            module.environ, module.begun = self.environ, self.begun


def _note(here):
    """Leaves a word for `trainspan run`: a Python of this version has come here, and
    has a client of its own installed."""
    for folder in os.environ.get("TRAINSPAN_RING", "").split(os.pathsep)[-1:]:
        path = os.path.join(folder, "python-%d.%d.names" % sys.version_info[:2])
        if folder and not os.path.exists(path):
            own = [p for p in sys.path if os.path.abspath(p) != here and os.path.exists(os.path.join(p, "trainspan", "_ring.py"))]
            f = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
            os.write(f, os.path.abspath(own[0]).encode(sys.getfilesystemencoding()) if own else b"")
            os.close(f)


def _ended():
    """Says what the process failed with."""
    try:
        if getattr(sys, "last_value", None) is not None:
            from trainspan import ending

            ending.tell()
    except Exception:
        pass


def _start(folder):
    try:
        _note(folder)
        if sys.version_info >= (3, 8) and not [f for f in sys.meta_path if type(f).__name__ == "_Client"]:
            sys.meta_path.insert(0, _Client(folder))
            if "torch" in sys.modules:
                sys.meta_path[0].find_spec("torch")
            if "atexit" in sys.builtin_module_names:  # so that it hides none of the program's
                import atexit

                atexit.register(_ended)
    except Exception:
        pass


def _next(folder):
    """The program's own sitecustomize, which finds its path as without this folder."""
    before = [(i, p) for i, p in enumerate(sys.path) if os.path.abspath(p) == folder]
    sys.path[:] = [p for p in sys.path if os.path.abspath(p) != folder]
    here = sys.modules.pop("sitecustomize", None)  # noqa: F841 Python 2 empties a module that nobody has
    try:
        import sitecustomize  # noqa: F401
    finally:
        for i, p in before:
            if p not in sys.path:
                sys.path.insert(i, p)


_start(os.path.dirname(os.path.abspath(__file__)))
_next(os.path.dirname(os.path.abspath(__file__)))
