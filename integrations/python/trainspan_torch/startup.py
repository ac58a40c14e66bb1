"""The parts of a start: the work of a process before it trains. Most are written after their
end, when the training thread is known. After the first iteration nothing of this module
runs."""

import json
from threading import get_ident

import trainspan
from trainspan import _ring, quiet, unframed

from . import hooks

SHORT = 1_000_000  # ns: shorter parts are not written


def _most(packages, n=5):
    """Returns the packages with the longest imports, as JSON: ms of each, without its own
    imports."""
    return json.dumps({p: round(ns / 1e6, 1) for p, ns in sorted(packages.items(), key=lambda item: -item[1])[:n]})


class StartUp:
    """The parts of the start that are not yet written."""

    def __init__(self, loop):
        self.loop = loop
        self.undo = []  # removes hooks that are needed only for a start
        self.reset()

    def reset(self):
        """Resets the state: a forked process has no start of its own."""
        self.thread = 0     # the training thread, which may write
        self.since = 0      # start of the process
        self.known = []     # ended parts: name, start and end by the clock of the ring buffer, arguments
        self.packages = {}  # ns of the imports of each
        self.built = None   # when the model began to be built, and the last operation on it
        self.first = True   # whether the first batch is outstanding
        self.token = None   # of the wait for it

    @quiet
    def begin(self, start):
        """Called when the training thread is known, and the span of the process has begun."""
        self.thread, self.since = get_ident(), start
        client = trainspan.client
        if client is not None:
            self.known.insert(0, ("interpreter", start + _ring.clock() - _ring.now(), client.begun, None))
            client.heard = self.imported
            client.tell()
        self.write()

    @quiet
    def imported(self, begin, end, packages):
        for p, ns in packages.items():
            self.packages[p] = self.packages.get(p, 0) + ns
        self.add("imports", begin, end, {"package": max(packages, key=packages.get), "ms": _most(packages)})

    @quiet
    def add(self, name, begin, end, args=None):
        """Stores an ended part."""
        if end - begin >= SHORT:
            self.known.append((name, begin, end, args))
            self.write()

    def write(self):
        if self.thread != get_ident():
            return
        known, self.known = self.known, []
        offset = _ring.now() - _ring.clock()
        for name, begin, end, args in known:
            begin = max(begin + offset, self.since)
            if end + offset > begin:
                _ring.event(self.name(name), begin, end + offset, args)

    def name(self, name):
        return _ring.name(name, "startup", "torch")

    # The model: from the first parameter to the last operation on it.

    def models(self, cls):
        """Records when parameters are registered, and operations on a whole model: it is moved
        to a device, gets weights."""
        for name in ("register_parameter", "_apply", "load_state_dict"):
            self.touching(cls, name)

    def touching(self, owner, name):
        """Records a function that changes a model, until the end of the start."""
        fn = getattr(owner, name)

        def call(*args, **kwargs):
            if hooks._compiling():
                return fn(*args, **kwargs)
            try:
                if not self.undo:
                    return fn(*args, **kwargs)
                begin = _ring.clock()
                try:
                    return fn(*args, **kwargs)
                finally:
                    self.touch(begin)
            except BaseException as e:
                unframed(e)
                raise

        def undo():
            if getattr(owner, name) is call:
                setattr(owner, name, fn)

        hooks.replace(owner, name, call)
        self.undo.append(undo)

    @quiet
    def touch(self, begin):
        if self.undo:
            self.built = [self.built[0] if self.built else begin, _ring.clock()]

    def other(self):
        """Called when other work begins."""
        built, self.built = self.built, None
        if built is not None:
            self.add("model", built[0], built[1], {"inferred": "from the first parameter to the last thing that was done to it"})

    # The first batch, of any loader: from the request for an iterator, if that is the loader's
    # first.

    def waits(self):
        """Called when an iterator or a batch of a loader is requested."""
        if self.first and self.thread and self.token is None:
            self.other()
            self.token = _ring.start(self.name("first_batch"))

    def came(self, batch):
        """Called when the batch has come."""
        token, self.token = self.token, None
        self.first = self.first and not batch
        _ring.end(token)

    @quiet
    def over(self):
        """Called at the end of the first iteration."""
        self.other()
        for undo in self.undo:
            undo()
        self.undo, self.first = [], False
        client = trainspan.client
        if client is not None:
            client.timing, client.heard = False, None
        if self.packages and self.thread:
            _ring.meta("imports", _most(self.packages))


def device(module):
    """Records the first use of a device: a driver is loaded, memory is reserved."""
    init, loop = module._lazy_init, hooks._loop

    def _lazy_init(*args, **kwargs):
        try:
            if module.is_initialized():
                return init(*args, **kwargs)
            begin = _ring.clock()
            try:
                return init(*args, **kwargs)
            finally:
                loop.start_up.add("device", begin, _ring.clock())
        except BaseException as e:
            unframed(e)
            raise

    hooks.replace(module, "_lazy_init", _lazy_init)


def stages(module):
    """Makes the first step of a pipeline, which runs its stages to determine shapes, part of
    the iteration: it is neither a forward of the training nor an evaluation."""
    loop = hooks._loop

    def before(args, kwargs):
        stage = args[0]
        if loop.grad() and stage.submod.training and loop.here():
            loop.forward(stage.submod)

    for cls in (getattr(module, "PipelineStage", None), getattr(module, "_PipelineStage", None)):
        for name in ("_prepare_forward_infra", "_prepare_backward_infra"):
            fn = getattr(cls, name, None)
            if fn is not None:
                hooks.replace(cls, name, hooks.wrap(fn, before, hooks._end, hooks.PHASE))


MODULES = {
    "torch.distributed.pipelining.stage": stages,
    "torch.cuda": device, "torch.xpu": device, "torch.mtia": device,
    "torch.distributed.fsdp.fully_sharded_data_parallel": lambda module: hooks._loop.start_up.touching(module.FullyShardedDataParallel, "__init__"),
    "torch.distributed.fsdp._fully_shard._fully_shard": lambda module: hooks._loop.start_up.touching(module, "fully_shard"),
}
