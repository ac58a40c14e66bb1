"""Puts trainspan into every Python process below `trainspan run`.

Python imports the first sitecustomize on its path, so this one runs the
program's own afterwards: whatever that one raises, site reports as it would
without this one. Nothing here may raise or print.
"""


def _next(ran):
    """The sitecustomize that Python would have found without those that ran."""
    import importlib.machinery
    import sys

    for folder in sys.path:
        spec = importlib.machinery.PathFinder.find_spec("sitecustomize", [folder])
        if spec is not None and spec.loader is not None and spec.origin not in ran:
            ran.add(spec.origin)  # other tools chain in the same way: round in circles is once too often
            return spec
    return None


def _start():
    import sys

    ran = {__file__}
    try:
        import trainspan_torch

        ran = trainspan_torch.customized
        ran.add(__file__)
        trainspan_torch.install()
    except Exception:
        pass
    try:
        spec = _next(ran)
    except Exception:
        spec = None
    if spec is not None:
        import importlib.util

        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_start()
