"""Hooks PyTorch's modules directly after they are loaded, and no others."""

import sys

from trainspan import _ring, environ

# The phases, by their names in TRAINSPAN_ONLY and TRAINSPAN_WITHOUT.
PHASES = (
    "data", "worker", "forward", "backward", "optimizer", "zero_grad", "comm", "checkpoint",
    "evaluation", "iteration", "epoch", "loop", "application", "device", "compile", "rollout",
)

_installed = False


def phases():
    """Returns the enabled phases, and the names in the environment that are invalid."""

    def names(key):
        return {n.strip().lower() for n in environ.get(key, "").split(",") if n.strip()}

    only, without = names("TRAINSPAN_ONLY"), names("TRAINSPAN_WITHOUT")
    on = (only or set(PHASES)) - without
    return on & set(PHASES), sorted((only | without) - set(PHASES))


def install():
    """Returns the functions to call when modules of PyTorch have run, by their names, once in a
    process; empty if that, or the recording, is switched off."""
    global _installed
    if _installed or not _ring.wanted or environ.get("TRAINSPAN_TORCH", "1").strip().lower() in ("0", "false", "no", "off"):
        return {}
    _installed = True
    from . import hooks

    on, unknown = phases()
    watched = hooks.watched(on, unknown)
    for name in list(watched):
        module = sys.modules.get(name)
        if module is not None and not getattr(module.__spec__, "_initializing", False):
            hooks.late(module, watched.pop(name))
    return watched
