"""DistributedDataParallel: the part of its all-reduce that the training waits for."""

import sys
import weakref
from threading import get_ident

from trainspan import _ring, quiet, unframed

from . import comm, hooks


class Gradients:
    """Records the part of DistributedDataParallel's all-reduce after the last gradient: the
    autograd engine calls the client back at that time, before it calls
    DistributedDataParallel, which waits there. A hook on the loss runs first in backward,
    where a callback can be queued."""

    def __init__(self):
        self.whole = bool  # after that each backward is recorded
        self.models = []  # references to the models, the arguments of their waits, number of forwards with reduced gradients
        self.engine = self.args = None
        self.ready = self.mark = 0
        self.token = None  # of the wait, if it begins on the training thread
        self.n = _ring.name("wait", "comm", "torch")

    def add(self, model, args):
        self.models = [m for m in self.models if m[0]() is not None] + [[weakref.ref(model), args, 0]]
        self.whole()

    @quiet
    def follow(self, tensors=None, *_, **__):
        """Called before backward: returns the hook, or None if no gradients are reduced, or if
        torch.compile would trace it."""
        self.ready, self.mark, self.token = 0, 0, None
        traced = sys.modules.get("torch._dynamo.compiled_autograd")
        if traced is not None and getattr(traced, "compiled_autograd_enabled", True):
            return None
        for entry in self.models:
            model = entry[0]()
            forwards = getattr(model, "num_iterations", 0)
            if getattr(model, "require_forward_param_sync", False) and (not forwards or forwards != entry[2]):
                self.args, entry[2] = entry[1], forwards
                return (tensors if hasattr(tensors, "register_hook") else tensors[0]).register_hook(self.begun)
        return None

    @quiet
    def begun(self, _):
        self.engine.queue_callback(self.reduced)

    @quiet
    def reduced(self):
        device = hooks._device
        self.mark = None if device is None or hooks._loop.step & device.skip else device.begin("wait")
        if get_ident() == hooks._loop.thread:
            self.token = _ring.start(self.n)
        else:
            self.ready = _ring.now()

    @quiet
    def end(self, hook):
        hook.remove()
        if self.token is not None:
            _ring.end(self.token, self.args or None)
        elif self.ready:
            _ring.event(self.n, self.ready, _ring.now(), self.args)
        if self.mark:
            hooks._device.end(self.mark, self.args)


gradients = Gradients()


def _data_parallel(module):
    cls = module.DistributedDataParallel
    made = cls.__init__

    follow = quiet(lambda model: gradients.add(model, comm.said(model.process_group)))

    def __init__(self, *args, **kwargs):
        try:
            begin = _ring.clock()
            made(self, *args, **kwargs)
            hooks._loop.start_up.touch(begin)
            follow(self)
        except BaseException as e:
            unframed(e)
            raise

    if "comm" in hooks._on:
        hooks.replace(cls, "__init__", __init__)


MODULES = {"torch.nn.parallel.distributed": _data_parallel}
