"""The phases of a PyTorch job, seen from the functions that every trainer calls.

Made for torch 1.13 to 2.x. A hook never raises, never looks at the data of a
tensor and never waits for a device. While torch.compile traces, each hook is a
plain call of what it wraps: Dynamo folds its first line away.
"""

import functools
import inspect
import os
import sys
import weakref
from threading import get_ident, local
from types import MethodType

from trainspan import _ring, environ, passing, quiet

from .device import Device
from .loop import Loop


class _Inside:
    """What a thread is inside of. Looking it up costs more than looking into it."""

    __slots__ = "busy", "owner", "token", "mark"

    def __init__(self, busy):
        self.busy = busy


class _Here(local):
    """Whether this thread is inside of a span: what that calls is part of it."""

    first = 0  # what threads begin with

    def __init__(self):
        self.inside = _Inside(self.first)


class _Phase(_Here):
    """Inside a forward, a backward, a wait for data or a checkpoint."""


_phase, _step, _comm = _Phase(), _Here(), _Here()
_on = _unknown = ()
_loop = _device = None
_compiling = bool  # torch.compiler.is_compiling in torch 2; bool() is False


def watched(on, unknown=()):
    """The modules to act on, and what to do once they are loaded."""
    global _on, _unknown, _loop
    _on, _unknown, _loop = on, unknown, Loop(on, _identify)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forked)
    checkpoint = "torch.distributed.checkpoint.state_dict_"
    table = {
        "torch.autograd": _autograd, "torch.nn.modules.module": _module, "torch.optim.optimizer": _optimizer,
        "torch.utils.data.dataloader": _dataloader, "torch.utils.data._utils.fetch": _fetchers,
        "torch.distributed.distributed_c10d": _collectives, "torch.distributed": _ddp,
        "torch.nn.parallel.distributed": _data_parallel, "torch.serialization": _serialization,
        checkpoint + "saver": _sharded, checkpoint + "loader": _sharded, "torch.cuda.graphs": _graphs, "torch": _loaded,
    }
    return {name: functools.partial(_guarded, act) for name, act in table.items()}


def _guarded(act, module):
    """A version of torch that is not known loses a phase, nothing else."""
    try:
        act(module)
    except Exception as e:
        passing(e)
        _ring.meta("not_watched." + module.__name__, "%s: %s" % (type(e).__name__, e))


def late(module, act):
    """Acts on a module that was loaded before: others may have its functions."""
    before = dict(vars(module))
    act(module)
    for name, old in before.items():
        new = getattr(module, name, old)
        if new is not old:
            for key, other in list(sys.modules.items()):
                if key.partition(".")[0] == "torch" and other is not None and vars(other).get(name) is old:
                    setattr(other, name, new)


def _forked():
    """A child of a process that trains, or tried its model, is a helper until it
    trains itself."""
    _step.inside.busy = _comm.inside.busy = 0
    _phase.inside.busy = _Phase.first
    _loop.helper = _loop.helper or _loop.thread != 0
    _loop.reset()
    if _device is not None:
        _device.reset()


def _loaded(torch):
    global _compiling, _device
    _compiling = getattr(getattr(torch, "compiler", None), "is_compiling", bool)
    _loop.grad = torch.is_grad_enabled
    # Whether there is a device is not asked: that would be its first use, after which
    # forked processes have none.
    if "device" in _on and (torch.version.cuda or getattr(torch.version, "hip", None)):
        _device = Device(torch.cuda)
        _loop.on_close = _device.collect


def _identify():
    _ring.meta("torch", str(getattr(sys.modules.get("torch"), "__version__", "")))
    if _unknown:
        _ring.meta("unknown_phases", ", ".join(_unknown))
        if environ.get("TRAINSPAN_VERBOSE") == "1":
            sys.stderr.write("trainspan[%d]: there are no such phases: %s\n" % (os.getpid(), ", ".join(_unknown)))


# -- how a function is watched


def _starter(phase, name, cat):
    """What begins a span of a phase: nothing where the phase is off, or where the
    program is inside a span of its own of that name."""
    n, program, start, loop = _ring.name(name, cat, "torch"), _ring.name(name, cat), _ring.start, _loop
    if phase not in _on:
        return lambda: None
    return lambda: None if loop.foreign(program) else start(n)


def _wrap(fn, before, after, here):
    """fn between two calls: before(args, kwargs) gives a token, or None when there
    is nothing to end."""
    before, after = quiet(before), quiet(after)

    def call(*args, **kwargs):
        if _compiling():
            return fn(*args, **kwargs)
        inside = here.inside
        if inside.busy:
            return fn(*args, **kwargs)
        token = result = None
        try:
            inside.busy = 1
            token = before(args, kwargs)
            result = fn(*args, **kwargs)
            return result
        finally:
            inside.busy = 0
            if token is not None:
                after(token, args, kwargs, result)

    return call


def _replace(owner, name, new):
    """Puts new in the place of a function; it pickles and reads as that one did."""
    functools.update_wrapper(new, getattr(owner, name))
    if isinstance(owner, type):
        new.__qualname__ = owner.__qualname__ + "." + name
    setattr(owner, name, new)


def _none(_):
    return None


def _end(token, args, kwargs, result):
    _ring.end(token)


# -- forward, backward, optimizer: once a step or more often, so written out


def _begin(phase, name, cat, enter):
    """What begins a span of the training thread: a quick way, and enter(of) when
    the loop has to look, which says whether there is to be a span."""
    n, program, start, loop = _ring.name(name, cat, "torch"), _ring.name(name, cat), _ring.start, _loop
    if phase not in _on:
        start = _none

    @quiet
    def begin(of):
        if enter(of) and not (loop.checking and loop.foreign(program)):
            return start(n)

    return n, start, begin


class _Call:
    """Module.__call__ as a module finds it. Inside of a forward that is the function of
    PyTorch: our frame around each module in a module would use up the depth of calls
    that a program has."""

    def __init__(self, watched, plain, here):
        self.watched, self.plain, self.here = watched, plain, here

    def __get__(self, module, cls=None):
        if module is None:
            return self.watched
        return MethodType(self.plain if self.here.inside.busy else self.watched, module)


def _module(module):
    cls = module.Module
    impl, loop, here, end = cls.__call__, _loop, _phase, _ring.end

    def enter(of):
        if loop.here():
            loop.forward(of)
            return not getattr(of.forward, "__trainspan__", None)  # else the program's own span is inside

    n, start, begin = _begin("forward", "forward", "compute", enter)

    def __call__(self, *args, **kwargs):
        if _compiling():
            return impl(self, *args, **kwargs)
        inside = here.inside
        if inside.busy:
            return impl(self, *args, **kwargs)
        token = mark = None
        try:
            inside.busy = 1
            # The quick way: nothing is new, it is the second forward of an iteration, or
            # the first one of what was trained before.
            if get_ident() != loop.quick or not loop.is_open:
                token = begin(self)
            elif loop.work:
                token = start(n)
            elif id(self) == loop.model and self.training and loop.grad():
                loop.work = 2
                token = start(n)
            else:
                token = begin(self)
            mark = _device and _device.begin("forward")
            return impl(self, *args, **kwargs)
        finally:
            inside.busy = 0
            if mark:
                _device.end(mark)
            if token is not None:
                end(token)
            if loop.alone:
                loop.end("evaluated")

    _replace(cls, "__call__", __call__)
    cls.__call__ = _Call(__call__, impl, here)


def _autograd(module):
    impl, loop, here, end, gradients = module.backward, _loop, _phase, _ring.end, _gradients
    n, start, begin = _begin("backward", "backward", "compute", lambda _: loop.here(True) and loop.trains())

    def backward(*args, **kwargs):
        if _compiling():
            return impl(*args, **kwargs)
        inside = here.inside
        if inside.busy:
            return impl(*args, **kwargs)
        token = mark = hook = None
        try:
            inside.busy = 1
            if loop.work and get_ident() == loop.quick:
                loop.work |= 1
                token = start(n)
            else:
                token = begin(None)
            mark = _device and _device.begin("backward")
            hook = gradients.models and gradients.follow(*args, **kwargs)
            return impl(*args, **kwargs)
        finally:
            inside.busy = 0
            if hook:
                gradients.end(hook)
            if mark:
                _device.end(mark)
            if token is not None:
                end(token)

    gradients.engine = module.Variable._execution_engine
    _replace(module, "backward", backward)  # Tensor.backward calls it by this name


class _Gradients:
    """What of DistributedDataParallel's all-reduce outlasts the last gradient: the
    engine calls us back after that, and before it calls DistributedDataParallel,
    which waits there. A hook on the loss runs inside of backward, first of all,
    which is where a callback can be queued."""

    def __init__(self):
        self.models = []  # references to the models, the arguments of their waits, how many forwards were reduced
        self.engine = self.args = None
        self.ready = self.mark = 0
        self.n = _ring.name("wait", "comm", "torch")

    @quiet
    def follow(self, tensors=None, *_, **__):
        """Before backward: gives the hook, or None where no gradients are reduced, or
        where torch.compile would trace it."""
        self.ready = self.mark = 0
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
        self.mark = _device and _device.begin("wait")
        self.ready = _ring.now()

    @quiet
    def end(self, hook):
        hook.remove()
        if self.ready:
            _ring.event(self.n, self.ready, _ring.now(), self.args)
        if self.mark:
            _device.end(self.mark, self.args)


_gradients = _Gradients()


def _data_parallel(module):
    cls = module.DistributedDataParallel
    made = cls.__init__

    @quiet
    def follow(model):
        alive = [m for m in _gradients.models if m[0]() is not None]
        _gradients.models = alive + [[weakref.ref(model), _group(module.dist.distributed_c10d, model.process_group), 0]]

    def __init__(self, *args, **kwargs):
        made(self, *args, **kwargs)
        follow(self)

    if "comm" in _on:
        _replace(cls, "__init__", __init__)


def _optimizer(module):
    cls = module.Optimizer
    loop, here, end = _loop, _step, _ring.end
    n, start, begin = _begin("optimizer", "step", "compute", lambda _: loop.here(True) and loop.trains())
    z, start_zero, begin_zero = _begin("zero_grad", "step.zero_grad", "compute", lambda _: loop.here())
    zero = cls.zero_grad

    def zero_grad(*args, **kwargs):
        if _compiling():
            return zero(*args, **kwargs)
        token = None
        try:
            token = start_zero(z) if loop.is_open and get_ident() == loop.quick else begin_zero(None)
            return zero(*args, **kwargs)
        finally:
            if token is not None:
                end(token)

    def pre(self, *_):
        if _compiling():
            return
        inside = here.inside
        if inside.busy and inside.owner == id(self):
            inside.busy = 0  # its last step has failed: then nobody calls post
            if inside.token is not None:
                _ring.drop(inside.token)
        inside.busy += 1  # its closure may hold forward and backward, and other steps
        if inside.busy == 1:
            inside.owner = id(self)
            inside.token = start(n) if loop.work & 1 and get_ident() == loop.quick else begin(self)
            inside.mark = _device and _device.begin("step")

    def post(self, *_, done=True):
        if _compiling():
            return
        inside = here.inside
        if not inside.busy:
            return
        inside.busy -= 1
        if not inside.busy:
            if inside.mark:
                _device.end(inside.mark)
            if inside.token is not None:
                end(inside.token)
            if done and not loop.by_batch:
                loop.updated(self)

    made = cls.__init__

    def __init__(self, *args, **kwargs):
        loop.armed, loop.helper = True, False
        made(self, *args, **kwargs)

    _replace(cls, "__init__", __init__)
    _replace(cls, "zero_grad", zero_grad)
    if hasattr(module, "register_optimizer_step_pre_hook"):
        module.register_optimizer_step_pre_hook(pre)
        module.register_optimizer_step_post_hook(post)
        return

    # 1.13: the step of a class is wrapped when its first instance is made.
    def hook(self):
        wrapped(self)
        owner = type(self)
        if not getattr(owner.step, "__trainspan_step__", False):
            step = owner.step

            def call(self, *args, **kwargs):
                pre(self)
                done = False
                try:
                    result = step(self, *args, **kwargs)
                    done = True
                    return result
                finally:
                    post(self, done=done)

            _replace(owner, "step", call)
            call.__trainspan_step__ = True

    wrapped = cls._hook_for_profile
    _replace(cls, "_hook_for_profile", hook)


# -- data


def _dataloader(module):
    cls, loader = module._BaseDataLoaderIter, module.DataLoader
    wait, loop, here, end = cls.__next__, _loop, _phase, _ring.end
    n, start, begin = _begin("data", "fetch.iter", "dataloader", lambda of: loop.asks(of) or True)
    recorded = start is not _none
    start_workers = _starter("data", "fetch.start", "dataloader")

    def __next__(self):
        inside = here.inside
        if inside.busy:
            return wait(self)
        feeds, token = True, None
        try:
            inside.busy = 1
            if get_ident() == loop.quick and recorded:
                token = loop.next_wait(id(self), n)
            quick = token is not None
            if not quick:
                feeds = loop.here()
                token = begin(self) if feeds else None if loop.helper else start(n)
            batch = wait(self)
        except BaseException as e:
            args = {} if feeds else {"background": 1}
            if isinstance(e, StopIteration):
                args["end_of_data"] = 1
            end(token, args)
            if feeds and "end_of_data" in args:
                loop.ended(id(self))
            raise
        finally:
            inside.busy = 0
        if quick:
            loop.next_iteration(token, batch)
        else:
            end(token, None if feeds else {"background": 1})
            if feeds:
                loop.got(self, batch)
        return batch

    def before(*_):
        if not loop.here():
            return None
        loop.asks(None)
        return start_workers()

    _replace(cls, "__next__", __next__)
    _replace(loader, "__iter__", _wrap(loader.__iter__, before, _end, here))


def _fetchers(module):
    """The work of a loader's worker, in its process."""
    start, pid = _starter("worker", "fetch", "dataloader"), 0

    def before(*_):
        nonlocal pid
        if pid != os.getpid():
            info = getattr(sys.modules.get("torch.utils.data._utils.worker"), "_worker_info", None)
            if info is None:
                return None
            pid = os.getpid()
            _Phase.first = _phase.inside.busy = 1  # nothing else is recorded here
            _ring.meta("role", "dataloader_worker")
            _ring.meta("worker", int(info.id))
        return start()

    for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
        cls = getattr(module, name, None)
        if cls is not None:
            _replace(cls, "fetch", _wrap(cls.fetch, before, _end, _Here()))


def _graphs(module):
    """While a graph is captured no event may be asked, on no thread."""
    begin, end = module.CUDAGraph.capture_begin, module.CUDAGraph.capture_end

    def capture_begin(self, *args, **kwargs):
        if _device is not None:
            _device.capture(id(self), True)
        try:
            return begin(self, *args, **kwargs)
        except BaseException:
            if _device is not None:
                _device.capture(id(self), False)
            raise

    def capture_end(self, *args, **kwargs):
        try:
            return end(self, *args, **kwargs)
        finally:
            if _device is not None:
                _device.capture(id(self), False)

    if "device" in _on:
        _replace(module.CUDAGraph, "capture_begin", capture_begin)
        _replace(module.CUDAGraph, "capture_end", capture_end)


# -- collectives

_COLLECTIVES = {
    "all_reduce": "all_reduce all_reduce_coalesced",
    "all_gather": "all_gather all_gather_into_tensor _all_gather_base all_gather_coalesced all_gather_object",
    "reduce_scatter": "reduce_scatter reduce_scatter_tensor _reduce_scatter_base", "reduce": "reduce",
    "bcast": "broadcast broadcast_object_list", "gather": "gather gather_object", "scatter": "scatter scatter_object_list",
    "all_to_all": "all_to_all all_to_all_single", "barrier": "barrier monitored_barrier",
    "send": "send isend batch_isend_irecv", "receive": "recv irecv", "comm.init": "init_process_group new_group",
}


def _bytes(value):
    """The bytes of a tensor, or of the tensors of a list."""
    if isinstance(value, (list, tuple)):
        return sum(map(_bytes, value))
    return value.numel() * value.element_size() if hasattr(value, "element_size") else 0


def _collectives(module):
    for event, names in _COLLECTIVES.items():
        for name in names.split():
            fn = getattr(module, name, None)
            if inspect.isfunction(fn):
                _replace(module, name, _collective(module, fn, event))
    work = getattr(module, "Work", None) or sys.modules["torch._C._distributed_c10d"].Work
    start = _starter("comm", "wait", "comm")

    def after(started, *_):
        _end_comm(started, None if get_ident() == _loop.thread else {"background": 1})

    # What a call with async_op gave back is waited for later.
    wait = _wrap(work.wait, lambda *_: _begin_comm(start, "wait"), after, _comm)
    work.wait = lambda self, *args, **kwargs: wait(self, *args, **kwargs)


def _ddp(module):
    """The buffers that DistributedDataParallel sends around before a forward: all
    ranks meet there."""
    fn = module._broadcast_coalesced
    module._broadcast_coalesced = _collective(module.distributed_c10d, fn, "bcast", ["group", "tensors"])


def _group(module, group):
    """What says that a collective is one of fewer ranks than there are."""
    if group is None or group is module.GroupMember.WORLD or group.size() == module.get_world_size():
        return {}
    known = getattr(module, "_pg_names", None) or module._world.pg_names
    return {"pg": str(known[group]), "group_size": group.size()}


def _begin_comm(start, event):
    """Begins a collective, on the host and where the device waits for it."""
    token = start()
    mark = _device and event != "comm.init" and get_ident() == _loop.thread and _device.begin_wait(event)
    return (token, mark) if token is not None or mark else None


def _end_comm(started, args):
    token, mark = started
    if mark:
        _device.end(mark, args)
    _ring.end(token, args)


def _collective(module, fn, event, names=None):
    start = _starter("comm", event, "comm")
    names = names or list(inspect.signature(fn).parameters)
    place = {name: i for i, name in enumerate(names)}
    buffers = [n for n in names[:2] if "tensor" in n or n in ("output", "input", "input_list")]

    def before(*_):
        if event == "comm.init":
            _loop.helper = False
        if not _loop.thread:
            _loop.here()
        return _begin_comm(start, event)

    def after(started, args, kwargs, _):
        def given(name):
            at = place.get(name, len(args))
            return args[at] if at < len(args) else kwargs.get(name)

        out = {}
        try:
            size = max([_bytes(given(n)) for n in buffers], default=0)
            if size:
                out["bytes"] = size
            out.update(_group(module, given("group")))
            if given("async_op") or fn.__name__ in ("isend", "irecv"):
                out["async"] = 1
            if get_ident() != _loop.thread:
                out["background"] = 1
            if event == "comm.init":
                _ring.meta("rank", module.get_rank())
                _ring.meta("world_size", module.get_world_size())
        finally:
            _end_comm(started, out)

    return _wrap(fn, before, after, _comm)


# -- checkpoints


def _checkpoint(owner, name, event, target, loads=False):
    """A function that saves or loads a checkpoint: its path and its size."""
    fn = owner.__dict__.get(name)
    if not inspect.isfunction(fn):
        return
    start, start_beside = _starter("checkpoint", event, "checkpoint"), _starter("checkpoint", "capture.finalize", "checkpoint")
    at = list(inspect.signature(fn).parameters).index(target)

    def path_of(args, kwargs):
        f = args[at] if at < len(args) else kwargs.get(target)
        path = os.fspath(f) if isinstance(f, (str, os.PathLike)) else getattr(f, "name", None)
        return path if isinstance(path, str) else None

    def before(args, kwargs):
        if path_of(args, kwargs) is None:
            return None  # memory
        if _loop.here() or loads and not _loop.helper:
            return start()
        return None if loads else start_beside()

    def after(token, args, kwargs, result):
        if loads and result is not None and not isinstance(result, dict):
            _ring.drop(token)  # data
            return
        path = path_of(args, kwargs)
        out = {"path": path}
        try:
            if os.path.isfile(path):
                out["bytes"] = os.path.getsize(path)
        finally:
            _ring.end(token, out)

    _replace(owner, name, _wrap(fn, before, after, _phase))


def _serialization(module):
    _checkpoint(module, "save", "capture", "f")
    _checkpoint(module, "load", "restart", "f", True)


def _sharded(module):
    """torch.distributed.checkpoint of torch 2."""
    for name, event in (("save", "capture"), ("async_save", "capture.async"), ("load", "restart")):
        _checkpoint(module, name, event, "checkpoint_id", event == "restart")
