"""The phases of a PyTorch job, seen from the functions that every trainer calls.

Made for torch 1.13 to 2.x. A hook never raises, never looks at the data of a
tensor and never waits for a device. While torch.compile traces, each hook is a
plain call of what it wraps: Dynamo folds its first line away.
"""

import functools
import os
import sys
import weakref
from threading import get_ident, local
from types import MethodType

from trainspan import _ring, ending, environ, passing, quiet

from . import device
from .loop import Loop


class _Inside:
    """What a thread is inside of. Looking it up costs more than looking into it."""

    __slots__ = ("busy",)

    def __init__(self, busy):
        self.busy = busy


class _Here(local):
    """Whether this thread is inside of a span: what that calls is part of it."""

    first = 0  # what threads begin with

    def __init__(self):
        self.inside = _Inside(self.first)


class _Phase(_Here):
    """Inside a forward, a backward, a wait for data or a checkpoint."""


PHASE, STEP, COMM = _Phase(), _Here(), _Here()
_on = _unknown = ()
_loop = _device = None
_compiling = bool  # torch.compiler.is_compiling in torch 2; bool() is False


def watched(on, unknown=()):
    """The modules to act on, and what to do once they are loaded."""
    global _on, _unknown, _loop
    _on, _unknown, _loop = on, unknown, Loop(on, _identify)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forked)
    from . import comm, compiled, loaders, saves, startup

    table = {
        "torch.autograd": _autograd, "torch.nn.modules.module": _module, "torch.optim.optimizer": _optimizer,
        "torch.amp.grad_scaler": _scaler, "torch.cuda.amp.grad_scaler": _scaler,
        "torch.nn.parallel.distributed": _data_parallel, "torch.cuda.graphs": _graphs, "torch": _loaded,
        "torch.multiprocessing.spawn": lambda module: replace(module, "_wrap", ending.telling(module._wrap)),
        **comm.MODULES, **compiled.MODULES, **loaders.MODULES, **saves.MODULES, **startup.MODULES,
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
    STEP.inside.busy = COMM.inside.busy = 0
    PHASE.inside.busy = _Phase.first
    _loop.helper = _loop.helper or _loop.thread != 0
    _loop.reset()
    _loop.start_up.reset()
    if _device is not None:
        _device.reset()


def _loaded(torch):
    global _compiling, _device
    _compiling = getattr(getattr(torch, "compiler", None), "is_compiling", bool)
    _loop.grad = torch.is_grad_enabled
    used = "device" in _on and device.of(torch)
    if used:
        _device = device.Device(used)
        _loop.on_close = _device.collect


def _identify():
    _ring.meta("torch", str(getattr(sys.modules.get("torch"), "__version__", "")))
    if _unknown:
        _ring.meta("unknown_phases", ", ".join(_unknown))
        if environ.get("TRAINSPAN_VERBOSE") == "1":
            sys.stderr.write("trainspan[%d]: there are no such phases: %s\n" % (os.getpid(), ", ".join(_unknown)))


# -- how a function is watched


def starter(phase, name, cat):
    """What begins a span of a phase: nothing where the phase is off, or where the
    program is inside a span of its own of that name."""
    n, program, start, loop = _ring.name(name, cat, "torch"), _ring.name(name, cat), _ring.start, _loop
    if phase not in _on:
        return lambda: None
    return lambda: None if loop.foreign(program) else start(n)


def wrap(fn, before, after, here):
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


def replace(owner, name, new):
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
    that a program has. The class itself always has that: Dynamo traces what it finds
    there, and its guards take no function of ours. Who replaces it for a while, as
    torch.fx does, puts that back; so with each backward, and compilation, we look."""

    def __init__(self, watched, plain, here):
        self.watched, self.plain, self.here = watched, plain, here

    def __get__(self, module, cls=None):
        if module is None:
            return self.plain
        return MethodType(self.plain if self.here.inside.busy else self.watched, module)


def _module(module):
    cls = module.Module
    impl, loop, here, end = cls.__call__, _loop, PHASE, _ring.end
    loop.start_up.models(cls)

    def enter(of):
        if loop.here():
            loop.start_up.other()
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

    functools.update_wrapper(__call__, impl)
    cls.__call__ = call = _Call(__call__, impl, here)

    def restore():
        if vars(cls)["__call__"] is impl:
            cls.__call__ = call

    _loop.restore = restore


def _autograd(module):
    gradients = _gradients
    gradients.engine = module.Variable._execution_engine
    n, start, begin = _begin("backward", "backward", "compute", lambda _: _loop.here(True) and _loop.trains())

    def watch(impl):
        loop, here, end = _loop, PHASE, _ring.end

        def backward(*args, **kwargs):
            if _compiling():
                return impl(*args, **kwargs)
            inside = here.inside
            if inside.busy:
                return impl(*args, **kwargs)
            token = mark = hook = None
            try:
                inside.busy = 1
                loop.restore()
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
                if not loop.armed:
                    loop.until = _ring.now()

        return backward

    # Torch 2 comes to all gradients by one function, 1.13 by two.
    one = "_engine_run_backward"
    if hasattr(module, one):
        replace(module, one, watch(getattr(module, one)))
        setattr(sys.modules["torch.autograd.graph"], one, getattr(module, one))  # where it is from
        return
    for name in ("backward", "grad"):
        replace(module, name, watch(getattr(module, name)))


class _Gradients:
    """What of DistributedDataParallel's all-reduce outlasts the last gradient: the
    engine calls us back after that, and before it calls DistributedDataParallel,
    which waits there. A hook on the loss runs inside of backward, first of all,
    which is where a callback can be queued."""

    def __init__(self):
        self.models = []  # references to the models, the arguments of their waits, how many forwards were reduced
        self.engine = self.args = None
        self.ready = self.mark = 0
        self.token = None  # of the wait, where it begins on the thread that trains
        self.n = _ring.name("wait", "comm", "torch")

    @quiet
    def follow(self, tensors=None, *_, **__):
        """Before backward: gives the hook, or None where no gradients are reduced, or
        where torch.compile would trace it."""
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
        self.mark = _device and _device.begin("wait")
        if get_ident() == _loop.thread:
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
            _device.end(self.mark, self.args)


_gradients = _Gradients()


def _data_parallel(module):
    from . import comm

    cls = module.DistributedDataParallel
    made = cls.__init__

    @quiet
    def follow(model):
        alive = [m for m in _gradients.models if m[0]() is not None]
        _gradients.models = alive + [[weakref.ref(model), comm.said(model.process_group), 0]]

    def __init__(self, *args, **kwargs):
        begin = _ring.clock()
        made(self, *args, **kwargs)
        _loop.start_up.touch(begin)
        follow(self)

    if "comm" in _on:
        replace(cls, "__init__", __init__)


def _optimizer(module):
    cls = module.Optimizer
    loop, here, end = _loop, STEP, _ring.end
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

    def watch(impl):
        def step(self, *args, **kwargs):
            if _compiling():
                return impl(self, *args, **kwargs)
            inside = here.inside
            if inside.busy:  # its closure may hold forward and backward, and other steps
                return impl(self, *args, **kwargs)
            token = mark = None
            done = False
            try:
                inside.busy = 1
                token = start(n) if loop.work & 1 and get_ident() == loop.quick else begin(self)
                mark = _device and _device.begin("step")
                result = impl(self, *args, **kwargs)
                done = True
                return result
            finally:
                inside.busy = 0
                if mark:
                    _device.end(mark)
                if token is not None:
                    end(token)
                if done:
                    loop.stepped += 1
                    if not loop.by_batch:
                        loop.updated(self)

        step.__trainspan_step__ = True
        return step

    made = cls.__init__

    def __init__(self, *args, **kwargs):
        loop.arm(self)
        made(self, *args, **kwargs)

    replace(cls, "__init__", __init__)
    replace(cls, "zero_grad", zero_grad)
    # The step of a class is wrapped when its first instance is made, as PyTorch does. Its
    # global hooks would do, but Dynamo gives up a frame that has any.
    def first(self):
        made_first(self)
        owner = type(self)
        if not getattr(owner.step, "__trainspan_step__", False):
            replace(owner, "step", watch(owner.step))

    name = "_patch_step_function" if hasattr(cls, "_patch_step_function") else "_hook_for_profile"
    made_first = getattr(cls, name)
    replace(cls, name, first)


def _scaler(module):
    """A step that a gradient scaler leaves out, because gradients are infinite, is one of
    the training's."""
    cls, loop = module.GradScaler, _loop
    impl = cls.step

    def step(self, optimizer, *args, **kwargs):
        before = loop.stepped
        result = impl(self, optimizer, *args, **kwargs)
        if loop.stepped == before and not loop.by_batch:
            loop.updated(optimizer)
        return result

    if "step" in vars(cls):
        replace(cls, "step", step)


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
        replace(module.CUDAGraph, "capture_begin", capture_begin)
        replace(module.CUDAGraph, "capture_end", capture_end)
