"""Records the phases of a PyTorch job by wrapping the functions that every trainer calls.

Supports torch 1.13 to 2.x. A hook never raises, never reads the data of a
tensor and never waits for a device. While torch.compile traces, each hook only
calls the function that it wraps: Dynamo folds its first line away.
"""

import functools
import json
import os
import sys
import weakref
from threading import get_ident, local
from types import MethodType

from trainspan import _ring, ending, environ, passing, quiet, traced_as, unframed

from . import device, stacks
from .loop import FORWARD, IN_BACKWARD, IN_FORWARD, IN_STEP, INSIDE, PARTS, STEPPED, TRAINED, Loop


class _Inside:
    """The state of a thread. Callers keep a reference: access to a thread-local costs more than
    access to this object."""

    __slots__ = ("busy",)

    def __init__(self, busy):
        self.busy = busy


class _Here(local):
    """Whether this thread is inside of a span: functions that are called there are part of it."""

    first = 0  # the initial value of a thread

    def __init__(self):
        self.inside = _Inside(self.first)


class _Phase(_Here):
    """Whether this thread is inside a forward, a backward, a wait for data or a checkpoint."""


PHASE, STEP, ZERO, COMM = _Phase(), _Here(), _Here(), _Here()
_on = ()
FAILED = object()  # in place of the result of a call that raised an error
_missing = []  # what is not recorded against expectation, in words
_loop = _device = None
_delays = None  # the delays of trainspan run --inject
_marking = []  # functions that turn on the device marks of a phase
_compiling = bool  # torch.compiler.is_compiling in torch 2; bool() is False


def watched(on, unknown=()):
    """Returns the functions to call when modules are loaded, by the names of the modules."""
    global _on, _loop
    _on, _loop = on, Loop(on, _identify)
    if unknown:
        _missing.append("unknown phase in TRAINSPAN_ONLY or TRAINSPAN_WITHOUT: " + ", ".join(unknown))
    if environ.get("TRAINSPAN_INJECT"):
        _inject(environ["TRAINSPAN_INJECT"])
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forked)
    from . import comm, compiled, loaders, parallel, rollout, saves, startup

    table = {
        "torch.autograd": _autograd, "torch.nn.modules.module": _module, "torch.optim.optimizer": _optimizer,
        "torch.amp.grad_scaler": _scaler, "torch.cuda.amp.grad_scaler": _scaler,
        "torch.cuda.graphs": _graphs, "torch": _loaded,
        "torch.multiprocessing.spawn": lambda module: replace(module, "_wrap", ending.telling(module._wrap)),
        **comm.MODULES, **compiled.MODULES, **loaders.MODULES, **parallel.MODULES, **rollout.MODULES, **saves.MODULES, **startup.MODULES,
    }
    return {name: functools.partial(_guarded, act) for name, act in table.items()}


def _guarded(act, module):
    """Calls act(module). If it fails, as with an unknown version of torch, only that phase is
    not recorded, and the report says why."""
    try:
        act(module)
    except Exception as e:
        passing(e)
        _missing.append("functions of %s (%s: %s)" % (module.__name__, type(e).__name__, str(e)[:160]))
        if _loop.thread:  # it trains already
            _tell_missing()


@quiet
def _inject(text):
    global _delays
    from . import inject

    _delays = inject.Delays(_loop, text)


def delayed(phase, fn):
    """Wraps fn so that it runs after the requested delays of a phase; returns fn itself if no
    delay is requested."""
    return fn if _delays is None else _delays.before(phase, fn)


def late(module, act):
    """Calls act on a module that is already loaded, and replaces its functions in other modules
    of torch that have imported them."""
    before = dict(vars(module))
    act(module)
    for name, old in before.items():
        new = getattr(module, name, old)
        if new is not old:
            for key, other in list(sys.modules.items()):
                if key.partition(".")[0] == "torch" and other is not None and vars(other).get(name) is old:
                    setattr(other, name, new)


def _forked():
    """Resets the state in a forked child. The child of a process that trains, or ran its model,
    is a helper until it trains itself."""
    STEP.inside.busy = ZERO.inside.busy = COMM.inside.busy = 0
    PHASE.inside.busy = _Phase.first
    _loop.helper = _loop.helper or _loop.thread != 0
    _loop.reset()
    _loop.start_up.reset()
    if _device is not None:
        _device.forked()


def _loaded(torch):
    global _compiling
    _compiling = getattr(getattr(torch, "compiler", None), "is_compiling", bool)
    _loop.grad = torch.is_grad_enabled
    used = "device" in _on and device.of(torch)
    if used:
        follow_device(device.Device(used, _loop))


def follow_device(used):
    """Marks phases on a device from now on."""
    global _device
    _device, _loop.on_close = used, used.collect
    for mark in _marking:
        mark()


def _identify():
    stacks.ready()
    _ring.meta("torch", str(getattr(sys.modules.get("torch"), "__version__", "")))
    if _missing:
        _tell_missing()


def _tell_missing():
    told = [text[:600] for text in _missing]
    while len(json.dumps(told)) > _ring.LONGEST_META:  # a cut one would not be JSON
        told.pop()
    _ring.meta("not_recorded", json.dumps(told))


# Wrappers of functions.


def starter(phase, name, cat):
    """Returns a function that begins a span of a phase. It does nothing if the phase is off, or
    if the program is inside a span of its own with that name."""
    n, start, loop, slots = _ring.name(name, cat, "torch"), _ring.start, _loop, _ring.slots
    if phase not in _on:
        return lambda: None
    return lambda: None if slots.shared and loop.foreign(n) else start(n)


def wrap(fn, before, after, here):
    """Wraps fn between two calls: before(args, kwargs) returns a token, or None if there is
    nothing to end, and after receives the token and the result, or FAILED."""
    in_phase = here is PHASE  # on the fast path only the loop's work has the phase

    def call(*args, **kwargs):
        if _compiling():
            return fn(*args, **kwargs)
        try:
            inside = here.inside
            if inside.busy or in_phase and _loop.inside(INSIDE):
                return fn(*args, **kwargs)
            token, result = None, FAILED
            lines = _loop.lines  # another thread may set it to None
            if lines is not None:
                lines.lost()
            try:
                inside.busy = 1
                try:
                    token = before(args, kwargs)
                except Exception as e:
                    passing(e)
                result = fn(*args, **kwargs)
                return result
            finally:
                inside.busy = 0
                if token is not None:
                    try:
                        after(token, args, kwargs, result)
                    except Exception as e:
                        passing(e)
        except BaseException as e:
            unframed(e)
            raise

    return call


def replace(owner, name, new):
    """Replaces the function name of owner by new, which has the name, the documentation and
    the pickled form of the original. Dynamo traces the original."""
    functools.update_wrapper(new, getattr(owner, name))
    traced_as(new.__wrapped__)(new)
    if isinstance(owner, type):
        new.__qualname__ = owner.__qualname__ + "." + name
    setattr(owner, name, new)


def _end(token, args, kwargs, result):
    _ring.end(token)


# Forward, backward, optimizer: they run at least once per step, so the code avoids calls.


def _marked(fn, name):
    """Wraps fn between two marks on the device, if the device is in use and the step has times."""
    loop = _loop

    def call(*args, **kwargs):
        try:
            mark = None if _device is None or loop.step & _device.skip else _device.begin(name)
            try:
                return fn(*args, **kwargs)
            finally:
                if mark is not None:
                    _device.end(mark)
        except BaseException as e:
            unframed(e)
            raise

    return call if name in ("forward", "backward", "step") else fn


def _phase(phase, part, here, inside, enter, fast, inner=None, ended=None, after=None):
    """Returns a function, watch, that wraps a function to record a phase: PARTS[part], whose
    bit in the loop's work is inside.

    enter(args) updates the loop, and returns whether to write a span. look is the slow path.
    fast(look, at) returns the fast path, which writes two words of a step from at on, and a
    function that sets what the fast path calls. The fast path calls look if a slot holds an
    enclosing span, such as one of the program, because the phase then needs a slot too. inner
    wraps the function that the slow path calls, and after watch.whole that of both paths. On
    the slow path ended() is called after the span, and after(args) unless an exception was
    raised."""
    (name, cat), loop, end = PARTS[part], _loop, _ring.end
    n, recorded, busy, wholes = _ring.name(name, cat, "torch"), phase in _on, inside if inside == IN_STEP else INSIDE, []

    @quiet
    def begin(args):
        if enter(args) and recorded and not (loop.checking and loop.foreign(n)):
            return _ring.start(n)

    def watch(impl):
        called, plain, put = inner(impl) if inner else impl, impl, bool
        beside = called  # on other threads than that of the training: device times are those of its steps

        def mark():
            nonlocal called, plain
            called, plain = _marked(called, name), _marked(plain, name)
            put(plain)

        def whole():
            nonlocal plain
            plain = called
            put(plain)

        def look(*args, **kwargs):
            try:
                outer, bit, token = here.inside, 0, None
                if outer.busy or _compiling() or loop.inside(busy):
                    captured = loop.captured
                    if captured is not None and inside & (IN_BACKWARD | IN_STEP):
                        optimizer = args[0] if inside == IN_STEP else None
                        captured[id(optimizer)] = None if optimizer is None else weakref.ref(optimizer)
                    return impl(*args, **kwargs)
                lines = loop.lines
                if lines is not None:
                    lines.enter(name, args)
                try:
                    outer.busy = 1
                    token = begin(args)
                    if get_ident() == loop.thread:
                        bit = inside
                        loop.work |= bit
                    value = (called if bit else beside)(*args, **kwargs)
                finally:
                    outer.busy = 0
                    if bit:  # only on the training thread
                        loop.work &= ~bit
                    end(token)
                    if ended is not None:
                        ended()
                    if lines is not None:
                        lines.leave(name)
                if after is not None:
                    after(args)
                return value
            except BaseException as e:
                unframed(e)
                raise

        _marking.append(mark)
        wholes.append(whole)
        watched = look
        if recorded:
            watched, put = fast(look, 6 + 2 * part)
            put(plain)
        if _device is not None:
            mark()
        return watched

    watch.whole = lambda: [whole() for whole in wholes]
    return watch


def _fast(need, within, then, after=None):
    """Returns the fast path of a phase, for use as fast in _phase. It applies if the loop's
    work is need, sets it to within during the call, and to then after it. after(args) is called
    if iterations do not last from batch to batch."""
    loop, clock = _loop, _ring.clock

    def fast(look, at):
        until, impl = at + 1, None

        def put(fn):
            nonlocal impl
            impl = fn

        def call(*args, **kwargs):
            try:
                if loop.work != need or get_ident() != loop.quick or loop.stack[-1] is not loop.top:
                    return look(*args, **kwargs)
                v = loop.frame
                try:
                    loop.work = within
                    v[at] = clock()
                    value = impl(*args, **kwargs) if kwargs else impl(*args)
                finally:
                    loop.work = then
                    try:
                        v[until] = clock()
                    except BaseException as e:  # a fork, or a signal
                        passing(e)
                if after is not None and not loop.by_batch:
                    after(args)
                return value
            except BaseException as e:
                unframed(e)
                raise

        return call, put

    return fast


def _call(watched, plain):
    """Returns a descriptor for Module.__call__. On an instance it is the wrapper, but inside of
    a forward PyTorch's function: a frame of the client around each nested module would use up
    the program's recursion depth. On the class it is always PyTorch's function, because Dynamo
    traces it and its guards reject the wrapper. Code that replaces it temporarily, such as
    torch.fx, restores PyTorch's function instead of the descriptor, so each backward and each
    compilation check this."""
    loop, here = _loop, PHASE

    class Call:
        def __get__(self, module, cls=None):
            if module is None:
                return plain
            return MethodType(plain if loop.work & INSIDE or here.inside.busy else watched, module)

    call = Call()
    call.plain = plain
    return call


def _module(module):
    cls, loop = module.Module, _loop
    impl = cls.__call__
    loop.start_up.models(cls)

    def enter(args):
        if loop.here():
            loop.start_up.other()
            loop.forward(args[0])
            return not getattr(args[0].forward, "__trainspan__", None)  # else the program's own span is inside

    def ended():
        if loop.alone:
            loop.judged()

    def fast(look, at):
        until, clock, within, impl = at + 1, _ring.clock, FORWARD | IN_FORWARD, None

        def put(fn):
            nonlocal impl
            impl = fn

        def call(*args, **kwargs):
            try:
                if loop.work or get_ident() != loop.quick or loop.stack[-1] is not loop.top or id(args[0]) != loop.model or not args[0].training or not loop.grad():
                    return look(*args, **kwargs)
                v = loop.frame
                try:
                    loop.work = within
                    v[at] = clock()
                    return impl(*args, **kwargs) if kwargs else impl(*args)
                finally:
                    loop.work = FORWARD
                    try:
                        v[until] = clock()
                    except BaseException as e:  # a fork, or a signal
                        passing(e)
            except BaseException as e:
                unframed(e)
                raise

        return call, put

    watched = _phase("forward", 2, PHASE, IN_FORWARD, enter, fast, None, ended)(delayed("evaluate", delayed("forward", impl)))
    watched = delayed("code", watched)
    functools.update_wrapper(watched, impl)
    cls.__call__ = call = _call(watched, impl)

    def restore():
        if vars(cls)["__call__"] is impl:
            cls.__call__ = call

    _loop.restore = restore


def _autograd(module):
    from .parallel import gradients

    loop = _loop
    gradients.engine = module.Variable._execution_engine

    def follow(impl):
        def backward(*args, **kwargs):
            try:
                loop.restore()
                hook = gradients.models and gradients.follow(*args, **kwargs)
                try:
                    return impl(*args, **kwargs)
                finally:
                    if hook:
                        gradients.end(hook)
            except BaseException as e:
                unframed(e)
                raise

        return backward

    def ended():
        if not loop.armed:
            loop.until = _ring.now()

    fast = _fast(FORWARD, TRAINED | FORWARD | IN_BACKWARD, TRAINED | FORWARD)
    watch = _phase("backward", 3, PHASE, IN_BACKWARD, lambda _: loop.here(True) and loop.differentiates(), fast, follow, ended)
    gradients.whole = watch.whole

    # Torch 2 computes all gradients in one function, 1.13 in two.
    one = "_engine_run_backward"
    if hasattr(module, one):
        replace(module, one, watch(delayed("backward", getattr(module, one))))
        setattr(sys.modules["torch.autograd.graph"], one, getattr(module, one))  # the module that defines it
        return
    for name in ("backward", "grad"):
        replace(module, name, watch(delayed("backward", getattr(module, name))))


def _stepped(args):
    """Called when the optimizer args[0] has made a step."""
    try:
        of_training = get_ident() == _loop.thread
        _loop.stepped += of_training
        if of_training and not _loop.work & IN_BACKWARD:
            _loop.updated(args[0])
        else:
            _loop.updated_inside(args[0])
    except Exception as e:
        passing(e)


def _optimizer(module):
    cls, loop = module.Optimizer, _loop

    # The closure of a step may run forward, backward and other steps.
    fast_step = _fast(TRAINED | FORWARD, TRAINED | FORWARD | IN_STEP, TRAINED | FORWARD | STEPPED, _stepped)

    def fast_zero(look, at):
        until, clock, impl = at + 1, _ring.clock, None

        def put(fn):
            nonlocal impl
            impl = fn

        def call(*args, **kwargs):
            try:
                v = loop.frame
                if v is loop.zeroed or get_ident() != loop.quick or loop.stack[-1] is not loop.top:
                    return look(*args, **kwargs)
                try:
                    loop.zeroed = v
                    v[at] = clock()
                    return impl(*args, **kwargs) if kwargs else impl(*args)
                finally:
                    try:
                        v[until] = clock()
                    except BaseException as e:
                        passing(e)
            except BaseException as e:
                unframed(e)
                raise

        return call, put

    step = _phase("optimizer", 4, STEP, IN_STEP, lambda _: loop.here(True) and loop.trains(), fast_step, None, None, _stepped)
    zero_grad = _phase("zero_grad", 1, ZERO, 0, lambda _: loop.here(), fast_zero)(cls.zero_grad)
    made = cls.__init__

    def __init__(self, *args, **kwargs):
        try:
            loop.arm(self)
            made(self, *args, **kwargs)
        except BaseException as e:
            unframed(e)
            raise

    replace(cls, "__init__", __init__)
    replace(cls, "zero_grad", zero_grad)
    # The step of a class is wrapped when its first instance is created, as in PyTorch. PyTorch's
    # global hooks would be sufficient, but Dynamo does not compile a frame that has any.
    def first(self):
        try:
            made_first(self)
            owner = type(self)
            if not getattr(owner.step, "__trainspan_step__", False):
                replace(owner, "step", step(owner.step))
                owner.step.__trainspan_step__ = True
        except BaseException as e:
            unframed(e)
            raise

    name = "_patch_step_function" if hasattr(cls, "_patch_step_function") else "_hook_for_profile"
    made_first = getattr(cls, name)
    replace(cls, name, first)


def _scaler(module):
    """Counts a step that a gradient scaler skips, because gradients are infinite, as a step of
    the training."""
    cls, loop = module.GradScaler, _loop
    impl = cls.step

    def step(self, optimizer, *args, **kwargs):
        try:
            before = loop.stepped
            result = impl(self, optimizer, *args, **kwargs)
            if loop.stepped == before and not loop.by_batch:
                _stepped((optimizer,))
            return result
        except BaseException as e:
            unframed(e)
            raise

    if "step" in vars(cls):
        replace(cls, "step", step)


def _graphs(module):
    """Records replays of graphs that train. The work of a capture does not run, so it is no
    step, and during it no thread may query an event."""
    cls, loop, busy = module.CUDAGraph, _loop, (PHASE, STEP, ZERO)
    begin, end, replay = cls.capture_begin, cls.capture_end, cls.replay
    n, recorded, trained = _ring.name("replay", "compute", "torch"), "forward" in _on, weakref.WeakKeyDictionary()

    @quiet
    def entered(graph):
        if _device is not None:
            _device.capture(id(graph), True)
        if get_ident() == loop.thread and not loop.work & (INSIDE | IN_STEP) and not any(here.inside.busy for here in busy):
            loop.captured, loop.quick = {}, 0
            for here in busy:
                here.inside.busy = 1

    @quiet
    def left(graph, failed):
        if _device is not None:
            _device.capture(id(graph), False)
        if loop.captured is not None and get_ident() == loop.thread:
            found, loop.captured = loop.captured, None
            for here in busy:
                here.inside.busy = 0
            if found and not failed:
                trained[graph] = [o for o in found.values() if o is not None]

    def capture_begin(self, *args, **kwargs):
        try:
            entered(self)
            return begin(self, *args, **kwargs)
        except BaseException as e:
            left(self, True)
            unframed(e)
            raise

    def capture_end(self, *args, **kwargs):
        failed = True
        try:
            result = end(self, *args, **kwargs)
            failed = False
            return result
        except BaseException as e:
            unframed(e)
            raise
        finally:
            left(self, failed)

    def before(args, _):
        optimizers = trained.get(args[0])
        if optimizers is None or loop.inside(INSIDE | IN_STEP) or not loop.here(True):
            return None
        loop.trains()
        loop.work |= FORWARD
        mark = None if _device is None or loop.step & _device.skip else _device.begin("replay")
        return recorded and _ring.start(n), mark, optimizers

    def after(began, *_):
        token, mark, optimizers = began
        if mark is not None:
            _device.end(mark)
        if token:
            _ring.end(token)
        for optimizer in optimizers:
            if optimizer() is not None:
                _stepped((optimizer(),))

    replace(cls, "capture_begin", capture_begin)
    replace(cls, "capture_end", capture_end)
    replace(cls, "replay", wrap(replay, before, after, PHASE))
    if hasattr(module, "make_graphed_callables"):  # it trains nothing itself
        replace(module, "make_graphed_callables", wrap(module.make_graphed_callables, lambda *_: None, _end, PHASE))
