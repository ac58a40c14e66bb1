"""Acts on PyTorch's modules right after they are loaded, and on nothing else.

A process that never imports torch pays for one look into a dictionary per
import. The modules keep their own loaders: nobody who looks at them sees that
they were watched.
"""

import sys

from trainspan import environ, quiet

# The phases, by the names that TRAINSPAN_ONLY and TRAINSPAN_WITHOUT take.
PHASES = (
    "data", "worker", "forward", "backward", "optimizer", "zero_grad", "comm", "checkpoint",
    "evaluation", "iteration", "epoch", "loop", "application", "device", "compile",
)

_finder = None


def phases():
    """The phases that are on, and the names in the environment that are none."""

    def names(key):
        return {n.strip().lower() for n in environ.get(key, "").split(",") if n.strip()}

    only, without = names("TRAINSPAN_ONLY"), names("TRAINSPAN_WITHOUT")
    on = (only or set(PHASES)) - without
    return on & set(PHASES), sorted((only | without) - set(PHASES))


class _Finder:
    """Steps aside for the real finder, and acts when the module has run."""

    def __init__(self, watched):
        self.watched = watched

    @quiet  # where it fails the other finders are asked next
    def find_spec(self, name, path=None, target=None):
        if name not in self.watched:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find and finder is not self else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, self.watched)
                return spec
        return None


class _Loader:
    """In the place of a loader until that runs the module: a program may look for one
    and not load it, and loaders may belong to several modules."""

    loader = None

    def __init__(self, loader, watched):
        self.loader, self.watched = loader, watched

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def exec_module(self, module):
        spec = module.__spec__
        spec.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        act = self.watched.pop(spec.name, None)
        if act is not None:
            act(module)


def install():
    """Watches for PyTorch, once in a process. Gives what finds its modules from then
    on, or None where it is switched off."""
    global _finder
    if _finder is not None or environ.get("TRAINSPAN_TORCH", "1").strip().lower() in ("0", "false", "no", "off"):
        return _finder
    from . import hooks

    on, unknown = phases()
    watched = hooks.watched(on, unknown, "torch" not in sys.modules)
    _finder = _Finder(watched)
    for name in list(watched):
        module = sys.modules.get(name)
        if module is not None and not getattr(module.__spec__, "_initializing", False):
            hooks.late(module, watched.pop(name))
    sys.meta_path.insert(0, _finder)
    return _finder
