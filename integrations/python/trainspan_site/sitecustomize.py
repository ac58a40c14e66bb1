"""Puts trainspan into every Python process below `trainspan run`.

Nothing is imported here but what the interpreter has loaded by now: a module of
the standard library that were, would hide one that the program calls the same.
The client is read, because its folder may be gone later, and runs when the
program imports it, or torch.

Python imports the first sitecustomize on its path, so this one runs the
program's own afterwards: whatever that one raises, site reports as it would
without this one. Nothing here may raise or print.
"""

import os
import sys


class _Client:
    """Finds the client's modules in memory, and has torch watched."""

    def __init__(self, folder):
        self.customized = set()  # the files named sitecustomize that ran in this process
        self.watching = False
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
            except Exception:
                pass
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        file, text = self.texts[module.__name__]
        exec(compile(text, file, "exec"), module.__dict__)
        if module.__name__ == "trainspan":
            module.environ = self.environ


def _next(ran):
    """The sitecustomize that Python would have found without those that ran."""
    for folder in sys.path:
        spec = sys.modules["_frozen_importlib_external"].PathFinder.find_spec("sitecustomize", [folder])
        if spec is not None and spec.loader is not None and spec.origin not in ran:
            ran.add(spec.origin)  # other tools chain in the same way: round in circles is once too often
            return spec
    return None


def _start():
    ran = {__file__}
    try:
        known = [finder for finder in sys.meta_path if type(finder).__name__ == "_Client"]
        if not known:
            known = [_Client(os.path.dirname(os.path.abspath(__file__)))]
            sys.meta_path[:0] = known
        ran = known[0].customized
        ran.add(__file__)
        if "torch" in sys.modules:
            known[0].find_spec("torch")
    except Exception:
        pass
    try:
        spec = _next(ran)
    except Exception:
        spec = None
    if spec is not None:
        module = sys.modules["_frozen_importlib"].module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_start()
