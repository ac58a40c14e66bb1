"""Checkpoints: each file, or folder of a sharded one, with its path and its size."""

import inspect
import os

from trainspan import _ring

from . import hooks


def _path(value):
    """Returns the path of a checkpoint: from a path, an open file, or a writer of
    torch.distributed.checkpoint; None for memory."""
    if not isinstance(value, (str, os.PathLike)):
        value = getattr(value, "name", None) or getattr(value, "path", None)
    path = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    return path if isinstance(path, str) else None


def _watch(owner, name, event, *targets, loads=False):
    """Records a function that saves or loads a checkpoint. The path is that of the first of its
    parameters targets that has one."""
    fn = owner.__dict__.get(name)
    if not callable(fn):
        return
    start = hooks.starter("checkpoint", event, "checkpoint")
    start_beside = hooks.starter("checkpoint", "capture.finalize", "checkpoint")
    try:
        names = list(inspect.signature(fn).parameters)
    except ValueError:  # it is not written in Python
        names = ["", *targets]
    loop = hooks._loop

    def path_of(args, kwargs):
        for target in targets:
            at = names.index(target) if target in names else len(args)
            path = _path(args[at] if at < len(args) else kwargs.get(target))
            if path is not None:
                return path

    def before(args, kwargs):
        path, token = path_of(args, kwargs), None
        if path is None:
            return None
        if loop.here():
            loop.saves()
            token = start()
        elif loads and not loop.helper:
            token = start()
        elif not loads:
            token = start_beside()
        return token and (token, path)

    def after(began, args, kwargs, result):
        token, path = began
        if result is hooks.FAILED:
            _ring.stop(token[1], {"path": path}, True, token)
            return
        if loads and result is not None and not isinstance(result, dict):
            _ring.drop(token)  # data, not a checkpoint
            return
        out = {"path": path}
        try:
            if os.path.isfile(path):
                out["bytes"] = os.path.getsize(path)
        finally:
            _ring.end(token, out)

    hooks.replace(owner, name, hooks.wrap(hooks.delayed("save", fn), before, after, hooks.PHASE))


def _serialization(module):
    _watch(module, "save", "capture", "f")
    _watch(module, "load", "restart", "f", loads=True)


def _safetensors(module):
    # Libraries import save_file under other names, or call the function below it.
    _watch(module, "save_file", "capture", "filename")
    _watch(module, "serialize_file", "capture", "filename")
    _watch(module, "load_file", "restart", "filename", loads=True)


def _sharded(module):
    _watch(module, "save", "capture", "checkpoint_id", "storage_writer")
    _watch(module, "async_save", "capture.async", "checkpoint_id", "storage_writer")
    _watch(module, "load", "restart", "checkpoint_id", "storage_reader", loads=True)


def _lightning(module):
    """Records Lightning's checkpoints, which it serializes in memory first."""
    _watch(module, "_atomic_save", "capture", "filepath")


MODULES = {
    "torch.serialization": _serialization, "safetensors.torch": _safetensors,
    "torch.distributed.checkpoint.state_dict_saver": _sharded, "torch.distributed.checkpoint.state_dict_loader": _sharded,
    "lightning.fabric.utilities.cloud_io": _lightning, "lightning_fabric.utilities.cloud_io": _lightning,
}
