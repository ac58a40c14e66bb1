"""Acts on PyTorch's modules right after they are loaded, and on nothing else."""

import sys

from trainspan import environ

# The phases, by the names that TRAINSPAN_ONLY and TRAINSPAN_WITHOUT take.
PHASES = (
    "data", "worker", "forward", "backward", "optimizer", "zero_grad", "comm", "checkpoint",
    "evaluation", "iteration", "epoch", "loop", "application", "device", "compile", "rollout",
)

_installed = False


def phases():
    """The phases that are on, and the names in the environment that are none."""

    def names(key):
        return {n.strip().lower() for n in environ.get(key, "").split(",") if n.strip()}

    only, without = names("TRAINSPAN_ONLY"), names("TRAINSPAN_WITHOUT")
    on = (only or set(PHASES)) - without
    return on & set(PHASES), sorted((only | without) - set(PHASES))


def install():
    """What is to be done with each module of PyTorch when it has run, by its name, once
    in a process. Nothing where that is switched off."""
    global _installed
    if _installed or environ.get("TRAINSPAN_TORCH", "1").strip().lower() in ("0", "false", "no", "off"):
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
