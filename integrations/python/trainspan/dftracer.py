"""DFTracer's Python API. A program that was written for it runs with

    from trainspan.dftracer import ai, dft_fn, dftracer

in place of `from dftracer.python import ...` or `from dftracer.logger import ...`;
trainspan.dftracer.python and trainspan.dftracer.logger are names of this module.

As with DFTracer, nothing is recorded unless DFTRACER_ENABLE is 1. Under
`trainspan run` it is recorded unless DFTRACER_ENABLE is 0.
"""

import functools
import inspect
import itertools
import os
import sys

from . import _ring, passing, plain, quiet

DFTRACER_ENABLE_ENV, DFTRACER_INIT_ENV, DFTRACER_LOG_LEVEL_ENV = "DFTRACER_ENABLE", "DFTRACER_INIT", "DFTRACER_LOG_LEVEL"
DFTRACER_TIME_METRIC_ENV = "DFTRACER_TIME_METRIC"
DFTRACER_ENABLE = _ring.wanted
DFTRACER_LOG_LEVEL = os.environ.get(DFTRACER_LOG_LEVEL_ENV, "ERROR")
INIT_NAME, ITER_COUNT_NAME, BLOCK_NAME, ITER_NAME, CTX_SEPARATOR = "init", "count", "block", "iter", "."
ROOT_NAME = ROOT_CAT = "ai_root"

_KEYS = ("epoch", "step", "image_idx", "image_size")
_nothing = "".format  # a function that takes anything and gives something false


def get_iter_block_name(name):
    return name if name.endswith(".block") else name + ".block"


def get_iter_handle_name(name):
    return name if name.endswith(".iter") else name + ".iter"


def get_time_scale():
    return 1e6


class TagType:
    KEY, VALUE, IGNORE = range(3)


class TagDType:
    INT, FLOAT, STRING = range(3)


class TagValue:
    def __init__(self, value, dtype=TagDType.STRING, tag_type=TagType.KEY):
        self._dtype, self._tag_type = dtype, tag_type
        self._value = (int, float, str)[dtype](value)

    def value(self):
        return (self._tag_type, self._value)


def _plain(value):
    """An argument as DFTracer takes it: numbers and text, alone or in a tag."""
    if isinstance(value, TagValue):
        return value._value
    if isinstance(value, tuple) and len(value) == 2:
        return value[1]
    return value


def _gather(into, args, values):
    """Adds arguments and those that have a place of their own to a dictionary."""
    for key, value in zip(_KEYS, values):
        if value is not None:
            into[key] = value
    for key, value in args.items() if hasattr(args, "items") else ():
        into[str(key)] = _plain(value)
    return into


def _detached(cat, name, on, extra):
    """A node that is not part of the tree."""
    node = DFTracerAI(cat, name, enable=on, _variant="detached")
    node._extra = extra
    node._set(on)
    return node


def _node(*path):
    """The node at a place in the tree, from the root: what a pickled one is."""
    node = ai
    for attr in path:
        node = node._children.get(attr) or node._child(attr, attr)
    return node


def _wrap(n, f, node, name=None):
    """f inside spans n."""
    if isinstance(f, (staticmethod, classmethod)):
        return type(f)(_wrap(n, f.__func__, node))
    if inspect.iscoroutinefunction(f):

        async def call(*args, **kwargs):
            token = None if node.off else _ring.start(n)
            try:
                return await f(*args, **kwargs)
            finally:
                _ring.end(token)

    else:
        call = _ring.wrap(n, f, node)
    call = functools.wraps(f)(call)
    call.__trainspan__ = n
    return call


def _iterate(node, iterator, names, count_key="count"):
    """The elements of an iterator, with a span for the wait for each and one for
    the work on it. A body that is left ends its span."""
    waits, works = names
    if node.off:
        yield from iterator
        return
    clock, counted, plain = _ring.clock, _ring.counted, count_key == "count"
    t = clock()
    count = 0
    _ring.fetches(waits, True)
    try:
        for value in iterator:
            count += 1
            if waits and not node.off:
                counted(waits, t, None, count) if plain else _ring.event(waits, t + _ring.now() - clock(), _ring.now(), {count_key: count})
            token = _ring.start(works) if works and not node.off else None
            try:
                yield value
            finally:
                if token is not None:
                    counted(works, 0, token, count) if plain else _ring.end(token, {count_key: count})
            t = clock()
    finally:
        _ring.fetches(waits, False)


class DFTracerAI:
    """A node of the tree: a category and a name. It is a decorator, a context
    manager, and has start and stop."""

    # Functions in slots: a with statement finds them as if they were methods, and
    # each node has its own, which know their span.
    __slots__ = ("__enter__", "__exit__", "start", "stop", "cat", "name", "off", "_n", "_above", "_children", "_loops", "_extra", "__dict__", "__weakref__")

    def __init__(self, cat, name=None, epoch=None, step=None, image_idx=None, image_size=None, enable=True, _above=None, _variant=0):
        self.cat, self.name = str(cat), str(name or cat)
        self._above, self._children, self._loops = _above, {}, {}
        self._extra = _gather({}, None, (epoch, step, image_idx, image_size)) if _variant else {}
        self._n = _ring.name(self.name, self.cat, _variant, _above._n if _above is not None else 0)
        self._set(enable and (_above is None or not _above.off))
        if not _variant and (epoch, step, image_idx, image_size) != (None,) * 4:
            self.update(epoch, step, image_idx, image_size)

    def _set(self, on):
        self.off = not (on and DFTRACER_ENABLE)
        if self.off:
            self.__enter__, self.__exit__, self.start, self.stop = itertools.repeat(self).__next__, _nothing, _nothing, _nothing
            return
        self.start = self.__enter__ = _ring.enter(self._n, self, (self.name + ".start", self.cat, "note"))
        self.stop = self.__exit__ = self._leave if self._extra else _ring.leave(self._n, (self.name + ".end", self.cat, "note"))

    def _leave(self, kind=None, error=None, trace=None, metadata=False):
        if metadata or kind is True:
            _ring.leave(self._n, (self.name + ".end", self.cat, "note"))(True)
        else:
            _ring.stop(self._n, dict(self._extra), kind)

    def _child(self, attr, name):
        child = self._children.get(attr)
        if child is None:
            child = self._children[attr] = DFTracerAI(self.cat, name, _above=self)
        return child

    def __call__(self, fn=None, *, enable=None, epoch=None, step=None, image_idx=None, image_size=None, args=None):
        node = self
        extra = _gather({}, args, (epoch, step, image_idx, image_size))
        if extra or fn is None:
            # A copy that is not part of the tree: it records even where the node is
            # off, and its arguments stay its own.
            node = _detached(self.cat, self.name, enable if enable is not None else not self.off, extra)
        if fn is None:
            return node
        if node.off or enable is False:
            return fn
        if extra:
            return node._decorate(fn)
        return _wrap(node._n, fn, node)

    def _decorate(self, fn):
        @functools.wraps(fn)
        def call(*args, **kwargs):
            with self:
                return fn(*args, **kwargs)

        call.__trainspan__ = self._n
        return call

    def iter(self, iterator, *, include_block=True, include_iter=True, iter_name=None, block_name=None):
        names = (include_iter and (iter_name or get_iter_handle_name(self.name)), include_block and (block_name or get_iter_block_name(self.name)))
        return _iterate(self, iterator, [name and _ring.name(name, self.cat, ("loop", self._n), self._n) for name in names])

    def init(self, fn=None, *, enable=None, epoch=None, step=None, image_idx=None, image_size=None, args=None):
        child = self.derive(INIT_NAME)
        return child(fn, enable=enable, epoch=epoch, step=step, image_idx=image_idx, image_size=image_size, args=args)

    def derive(self, name):
        name = self.name + "." + name
        return self._child(name, name)

    def create_children(self, names):
        for attr, name in names.items():
            setattr(self, attr, self._child(attr, str(name)))

    def update(self, epoch=None, step=None, image_idx=None, image_size=None, args=None):
        """Arguments for the spans of the node and those below it that end later."""
        if not DFTRACER_ENABLE:
            return self
        if self._above is None and self.cat != ROOT_CAT:
            _gather(self._extra, args, (epoch, step, image_idx, image_size))
            self._set(not self.off)
            return self
        if epoch is not None or step is not None:
            _ring.position(epoch, step, n=self._n)
        rest = _gather({}, args, (None, None, image_idx, image_size))
        if rest:
            _ring.mark(_ring.UPDATE, self._n, rest, 0, 0)
        return self

    def _switch(self, on):
        self._set(on)
        for child in self._children.values():
            child._switch(on)

    def enable(self):
        self._switch(True)
        _ring.switch(self._n, 1)

    def disable(self):
        self._switch(False)
        _ring.switch(self._n, 0)

    reset = _nothing

    def __reduce__(self):
        path, node = [], self
        while node._above is not None:
            path[:0] = [attr for attr, child in node._above._children.items() if child is node][:1]
            node = node._above
        if node is ai:
            return _node, tuple(path)
        return _detached, (self.cat, self.name, not self.off, self._extra)

    def get_time(self):
        return _ring.now() // 1000

    @property
    def profiler(self):
        return self


def _events(name, words):
    return type(name, (), {word.upper(): word for word in words})


_TREE = {
    "compute": ("Compute", "ComputeEvent", "forward backward step"),
    "data": ("Data", "DataEvent", "preprocess item"),
    "dataloader": ("DataLoader", "DataLoaderEvent", "fetch"),
    "comm": ("Communication", "CommunicationEvent", "send receive barrier bcast reduce all_reduce gather all_gather scatter reduce_scatter all_to_all"),
    "device": ("Device", "DeviceEvent", "transfer"),
    "checkpoint": ("Checkpoint", "CheckpointEvent", "capture restart"),
    "pipeline": ("Pipeline", "PipelineEvent", "epoch train evaluate test"),
}
ProfileCategory = _events("ProfileCategory", _TREE)


def _category(cls, cat, words):
    def __init__(self, epoch=None, step=None, image_idx=None, image_size=None, enable=True, _above=None):
        DFTracerAI.__init__(self, cat, cat, epoch, step, image_idx, image_size, enable, _above)
        self.create_children({word: word for word in words})

    return type(cls, (DFTracerAI,), {"__slots__": (), "__init__": __init__})


for _cat, (_cls, _event, _words) in _TREE.items():
    globals()[_cls], globals()[_event] = _category(_cls, _cat, _words.split()), _events(_event, _words.split())


class AI(DFTracerAI):
    """The tree. Its root is the span of the whole run."""

    def __init__(self, epoch=None, step=None, image_idx=None, image_size=None, enable=True):
        DFTracerAI.__init__(self, ROOT_CAT, ROOT_NAME, epoch, step, image_idx, image_size, enable)
        for cat, (cls, _, _) in _TREE.items():
            self._children[cat] = node = globals()[cls](enable=enable, _above=self)
            setattr(self, cat, node)


ai = AI()
compute, data, dataloader, comm, device, checkpoint, pipeline = (getattr(ai, cat) for cat in _TREE)


_meta = quiet(lambda key, value: _ring.meta(str(key), str(plain(value))))


class dftracer:
    """The log of this process."""

    _instance = None
    logger = dbg_logging = None

    @classmethod
    def get_instance(cls):
        if cls._instance is None:
            dftracer._instance = dftracer()
        return cls._instance

    @staticmethod
    def initialize_log(logfile=None, data_dir=None, process_id=-1):
        """Says where the log goes. The path is that of a trace: the ring is made
        beside it, and `trainspan import` makes the trace of it."""
        quiet(lambda: _ring.configure(os.fspath(logfile) if logfile else os.environ.get("DFTRACER_LOG_FILE") or "./trace"))()
        return dftracer.get_instance()

    def get_time(self):
        return _ring.now() // 1000 if DFTRACER_ENABLE else 0

    def get_config(self, key):
        return os.environ.get(key, "US" if key == DFTRACER_TIME_METRIC_ENV else "") if DFTRACER_ENABLE else ""

    enter_event = exit_event = _nothing

    @quiet
    def log_event(self, name, cat, start_time, duration, int_args=None, float_args=None, string_args=None):
        """Records what is over; times are microseconds since the epoch."""
        args = _gather(_gather(_gather({}, int_args, ()), float_args, ()), string_args, ())
        _ring.event(_ring.name(name, cat), int(start_time * 1000), int((start_time + duration) * 1000), args)

    def log_metadata_event(self, key, value):
        _meta(key, value)

    def finalize(self):
        _ring.close()


class dft_fn:
    """Spans of a category: a context manager, a decorator of functions by log, and
    an iterator."""

    def __init__(self, cat, name=None, epoch=None, step=None, image_idx=None, image_size=None, enable=True):
        self.off = not (enable and DFTRACER_ENABLE)
        self._cat, self._token = str(cat), None
        self._name = str(name or sys._getframe(1).f_code.co_name)
        self._arguments = _gather({}, None, (epoch, step, image_idx, image_size))
        self._t = _ring.now()

    @property
    def _enable(self):
        return not self.off

    @_enable.setter
    def _enable(self, on):
        self.off = not (on and DFTRACER_ENABLE)

    def __enter__(self):
        if not self.off:
            self._token = _ring.start(_ring.name(self._name, self._cat))
        return self

    def __exit__(self, kind, error, trace):
        token, self._token = self._token, None
        _ring.end(token, dict(self._arguments) or None)

    def update(self, epoch=None, step=None, image_idx=None, image_size=None, args=None):
        _gather(self._arguments, args, (epoch, step, image_idx, image_size))
        return self

    def flush(self):
        """Records the time since the object was made, entered or reset."""
        if self._token is not None:
            self.__exit__(None, None, None)
        elif not self.off:
            _ring.event(_ring.name(self._name, self._cat), self._t, _ring.now(), self._arguments)
        return self

    def reset(self):
        self._t = _ring.now()
        return self

    def log(self, func=None, name=None):
        if not callable(func):
            return lambda f: self.log(f, name)
        if self.off:
            return func
        n = _ring.name(name or getattr(func, "__qualname__", type(func).__qualname__), self._cat)
        try:
            signature = inspect.signature(func)
            names = [key for key in _KEYS if key in signature.parameters]
        except (TypeError, ValueError):
            names = []
        if not names and not self._arguments:
            return _wrap(n, func, self)

        def arguments(args, kwargs):
            given = dict(self._arguments)
            try:
                found = signature.bind(*args, **kwargs)
                found.apply_defaults()
                given.update((key, found.arguments[key]) for key in names if found.arguments[key] is not None)
            except Exception as e:
                passing(e)
            return given

        @functools.wraps(func)
        def call(*args, **kwargs):
            token = None if self.off else _ring.start(n)
            try:
                return func(*args, **kwargs)
            finally:
                if token is not None:
                    _ring.end(token, arguments(args, kwargs))

        call.__trainspan__ = n
        return call

    def log_init(self, init=None, name=None):
        return self.log(init, name)

    def log_static(self, func=None, name=None):
        if isinstance(func, staticmethod):
            func = func.__func__
        return self.log(func, name)

    def log_metadata(self, key, value):
        if not self.off:
            _meta(key, value)

    def iter(self, func, name="loop", iter_name="step"):
        names = [_ring.name(name + end, self._cat) for end in (".iter", ".yield")]
        return _iterate(self, func, names, iter_name)


@quiet
def trace_handler(prof):
    """For on_trace_ready of torch.profiler: one event of category PP for each
    operation, at the time at which it ran."""
    result = getattr(getattr(prof, "profiler", prof), "kineto_results", None)
    events = list(prof.events())
    if hasattr(result, "trace_start_ns"):
        base = result.trace_start_ns()
    elif hasattr(result, "trace_start_us"):
        base = result.trace_start_us() * 1000
    else:
        base = _ring.now() - int(max(e.time_range.end for e in events) * 1000)
    wholes = {}
    for kind in ("cpu", "device"):
        wholes[kind] = sum(getattr(e, "self_%s_time_total" % kind, 0) or 0 for e in events)
    for e in events:
        args = {"device": int(getattr(e, "device_type", 0)), "is_remote": int(bool(getattr(e, "is_remote", False)))}
        for kind, whole in wholes.items():
            if whole:
                args["total_%s_percent" % kind] = round(100 * (getattr(e, kind + "_time_total", 0) or 0) / whole, 3)
        for key, attr in (("cpu_memory", "cpu_memory_usage"), ("device_memory_usage", "device_memory_usage")):
            if getattr(e, attr, None) is not None:
                args[key] = int(getattr(e, attr))
        shapes = getattr(e, "input_shapes", None)
        if shapes:
            args["input_size"] = sum(len(shape) for shape in shapes)
        t = base + int(e.time_range.start * 1000)
        _ring.event(_ring.name(e.key, "PP"), t, base + int(e.time_range.end * 1000), args, tid=getattr(e, "thread", 0) or 0)


def __getattr__(name):
    if name in ("Dynamo", "dynamo", "create_backend", "dftracer_dynamo_backend"):
        import importlib

        return getattr(importlib.import_module("trainspan.dynamo"), name)
    raise AttributeError("module %r has no attribute %r" % (__name__, name))


# DFTracer's own paths below this module.
__path__ = []
for _old in ("python", "logger", "python.logger", "python.ai", "python.common", "python.torch", "python.dynamo"):
    sys.modules[__name__ + "." + _old] = sys.modules[__name__]
python = logger = sys.modules[__name__]
del _cat, _cls, _event, _words, _old
