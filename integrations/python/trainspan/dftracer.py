"""DFTracer's Python API. A program that was written for it runs with

    from trainspan.dftracer import ai, dft_fn, dftracer

in place of `from dftracer.python import ...` or `from dftracer.logger import ...`;
trainspan.dftracer.python and trainspan.dftracer.logger are names of this module.

As with DFTracer, nothing is recorded unless DFTRACER_ENABLE is 1. Under
`trainspan run` it is recorded unless DFTRACER_ENABLE is 0.
"""

import sys
from threading import get_ident

from . import _ring, quiet, traced_as
from ._fn import _iterate, _within, _wrap, dft_fn
from ._log import *  # noqa: F403 the names of the original
from ._log import _KEYS, _gather, _meta


def get_iter_block_name(name):
    return name if name.endswith(".block") else name + ".block"


def get_iter_handle_name(name):
    return name if name.endswith(".iter") else name + ".iter"


def _alone(cls, cat, name, on, extra, variant="detached", above=0):
    """Returns a node without calling __init__ of its class."""
    node = cls.__new__(cls)
    node._cat, node._name, node._above, node._children, node._updates, node._extra, node._started = cat, name, None, {}, {}, extra, {}
    node._n = _ring.name(name, cat, variant, above)
    node._set(on)
    return node


def _node(*path):
    """Returns the node at a path in the tree, from the root: the form of a pickled node."""
    node = ai
    for attr in path:
        node = node._children.get(attr) or node._child(attr, attr)
    return node


class DFTracerAI:
    """A node of the tree: a category and a name. It is a decorator, a context manager, and has
    start and stop."""

    # _quick is the id of the node's spans while the node is on, None while it is off and no
    # thread has an open span of it, and otherwise 0. _data has the node's own arguments in
    # their written form. _started has the tokens of start, by thread.
    __slots__ = ("off", "_quick", "_n", "_data", "_cat", "_name", "_above", "_children", "_extra", "_updates", "_wanted", "_started", "__dict__", "__weakref__")

    def __init__(self, *, cat, name=None, epoch=None, step=None, image_idx=None, image_size=None, enable=True, _above=None):
        self._cat, self._name = str(cat), str(name or cat)
        self._above, self._children, self._updates, self._extra, self._started = _above, {}, {}, {}, {}
        self._n = _ring.name(self._name, self._cat, 0, _above._n if _above is not None else 0)
        self._set(enable and (_above is None or not _above.off))
        if (epoch, step, image_idx, image_size) != (None,) * 4:
            self.update(epoch, step, image_idx, image_size)

    __enter__, __exit__ = _ring.enter, _ring.leave

    @traced_as(lambda self, metadata=False: None)
    def start(self, metadata=False):
        if metadata:
            self._note(START_METADATA_NAME)
        elif type(self).__enter__ is not _enter or type(self).__exit__ is not _leave:
            self.__enter__()
        elif not self.off:
            self._begin()

    @quiet
    def _begin(self):
        # Not as a with statement does: the program may stop spans in any order, and in another
        # thread.
        started = self._started.setdefault(get_ident(), [])
        del started[:-512]  # without a stop
        started.append(_ring.start(self._n))

    @traced_as(lambda self, metadata=False: None)
    def stop(self, metadata=False):
        """Ends the last span that this thread has started, else the one of another thread."""
        if metadata:
            return self._note(STOP_METADATA_NAME)
        token = self._last() if self._started else None
        if token is None:
            self.__exit__(None, None, None)
        elif self.off:
            _ring.drop(token)
        else:
            _ring.end(token, self._data)
        return None

    @quiet
    def _last(self):
        thread = get_ident()
        if thread not in self._started:
            thread = list(self._started)[-1]
        tokens = self._started[thread]
        token = tokens.pop()
        if not tokens:
            self._started.pop(thread, None)
        return token if token is not None and _ring.holds(token) else None  # a with statement may have ended it

    def _note(self, which):
        if not self.off:
            _ring.mark(_ring.NOTE, _ring.name(self._name + "." + which, self._cat, "note"), None, 0, 0)

    def _set(self, on):
        self._wanted, self.off = bool(on), not (on and DFTRACER_ENABLE)
        if self.off:
            self._quick = None if _ring.unused(self._n) else 0
        else:
            self._quick = self._n
        self._data = _ring.encoded(self._extra) if self._extra and not self.off else b""

    def _child(self, attr, name):
        child = self._children.get(attr)
        if child is None:
            child = self._children[attr] = DFTracerAI(cat=self._cat, name=name, _above=self)
            child._extra = {key: self._extra[key] for key in _KEYS if key in self._extra}
            child._set(child._wanted)
        return child

    @traced_as(lambda self, fn=None, **given: self if fn is None else fn)
    def __call__(self, fn=None, *, enable=None, epoch=None, step=None, image_idx=None, image_size=None, args=None):
        extra = _gather({}, args or None, (epoch, step, image_idx, image_size))
        on = self._wanted if enable is None else enable
        if fn is None:
            # A copy that is not part of the tree: it records even if the node is off, and
            # has separate arguments.
            return _alone(DFTracerAI, self._cat, self._name, on, extra)
        if not on or not DFTRACER_ENABLE:
            return fn
        if extra:
            data = _ring.encoded(extra)
            return _wrap(_ring.name(self._name, self._cat, "detached"), fn, self, lambda args, kwargs: data)
        if type(self).__enter__ is not _enter or type(self).__exit__ is not _leave:
            return _within(self, fn)
        return _wrap(self._n, fn, self, (lambda args, kwargs: self._data) if self._own else None)

    def iter(self, iterator, *, include_block=True, include_iter=True, iter_name=None, block_name=None):
        names = (include_iter and (iter_name or get_iter_handle_name(self._name)), include_block and (block_name or get_iter_block_name(self._name)))
        return _iterate(self, iterator, [name and _ring.name(name, self._cat, ("loop", self._n), self._n) for name in names])

    @property
    def init(self):
        """Returns the node of the initialization of an object: a decorator, with the arguments
        of any node, and a context manager."""
        return self.derive(INIT_NAME)

    def derive(self, name):
        name = self._name + "." + name
        return self._child(name, name)

    def create_children(self, names):
        for attr, name in names.items():
            setattr(self, attr, self._child(attr, str(name)))

    @traced_as(lambda self, *args, **given: self)
    def update(self, epoch=None, step=None, image_idx=None, image_size=None, args=None):
        """Sets arguments for the spans of the node and those below it that end later."""
        if not DFTRACER_ENABLE:
            return self
        if self.off:
            for child in self._children.values():
                child.update(epoch, step, image_idx, image_size, args)
            return self
        given = _gather({}, args, (epoch, step, image_idx, image_size))
        if self._own:
            self._extra.update(given)
            self._set(True)
            for child in self._children.values():
                child.update(epoch, step, image_idx, image_size, args)
            return self
        self._updates.update(given)
        if "epoch" in given or "step" in given:
            _ring.position(given.pop("epoch", None), given.pop("step", None), n=self._n)
        if given:
            _ring.mark(_ring.UPDATE, self._n, given, 0, 0)
        return self

    @property
    def _own(self):
        """Returns whether the node is not part of a tree, so that it has separate arguments."""
        return self._above is None and self._cat != ROOT_CAT

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

    def reset(self):
        pass

    def __reduce__(self):
        path, node = [], self
        while node._above is not None:
            path[:0] = [attr for attr, child in node._above._children.items() if child is node][:1]
            node = node._above
        if node is ai:
            return _node, tuple(path)
        return _alone, (type(self), self._cat, self._name, self._wanted, self._extra), self.__dict__ or None

    def get_time(self):
        return dftracer.get_instance().get_time()

    def log_metadata(self, key, value):
        if not self.off:
            _meta(key, value)

    @property
    def profiler(self):
        return self

    # The original's attributes of a node, for code that reads them.

    @property
    def _enable(self):
        return self._wanted

    cat = property(lambda self: self._cat)
    name = property(lambda self: self._name)
    _arguments_int = property(lambda self: self._given(int))
    _arguments_float = property(lambda self: self._given(float))
    _arguments_string = property(lambda self: self._given(str))

    def _given(self, kind):
        given, node = dict(self._extra), self
        while node is not None:
            given, node = dict(node._updates, **given), node._above
        return {key: (0, value) for key, value in given.items() if isinstance(value, kind)}


_enter, _leave = DFTracerAI.__enter__, DFTracerAI.__exit__


_TREE = {
    "compute": ("Compute", "ComputeEvent", "forward backward step"),
    "data": ("Data", "DataEvent", "preprocess item"),
    "dataloader": ("DataLoader", "DataLoaderEvent", "fetch"),
    "comm": ("Communication", "CommunicationEvent", "send receive barrier bcast reduce all_reduce gather all_gather scatter reduce_scatter all_to_all"),
    "device": ("Device", "DeviceEvent", "transfer"),
    "checkpoint": ("Checkpoint", "CheckpointEvent", "capture restart"),
    "pipeline": ("Pipeline", "PipelineEvent", "epoch train evaluate test"),
    "other": ("Other", "OtherEvent", "log"),
}
_IO = ("data", "checkpoint", "other")  # categories that have a node for I/O


class IO(DFTracerAI):
    """I/O of a category: open, read, write, close."""

    __slots__ = ()

    def __init__(self, *, cat, parent_name, epoch=None, step=None, image_idx=None, image_size=None, enable=True, _above=None):
        name = str(parent_name) + ".io"
        super().__init__(cat=cat, name=name, epoch=epoch, step=step, image_idx=image_idx, image_size=image_size, enable=enable, _above=_above)
        self.create_children({word: name + "." + word for word in _EVENTS["IOEvent"].split()})


def _category(cls, cat, words):
    def __init__(self, epoch=None, step=None, image_idx=None, image_size=None, enable=True, *, _above=None):
        given = {"epoch": epoch, "step": step, "image_idx": image_idx, "image_size": image_size, "enable": enable}
        DFTracerAI.__init__(self, cat=cat, _above=_above, **given)
        self.create_children({word: "other." + word if cat == "other" else word for word in words})
        if cat in _IO:
            self._children["io"] = self.io = IO(cat=cat, parent_name=cat, _above=self, **given)

    __init__.__qualname__ = cls + ".__init__"
    return type(cls, (DFTracerAI,), {"__slots__": (), "__init__": __init__, "__module__": __name__})


_EVENTS = {"IOEvent": "open read write close", "ProfileCategory": " ".join(_TREE)}  # the members of enums
for _cat, (_cls, _event, _words) in _TREE.items():
    globals()[_cls], _EVENTS[_event] = _category(_cls, _cat, _words.split()), _words


class AI(DFTracerAI):
    """The tree. Its root is the span of the whole run."""

    def __init__(self, epoch=None, step=None, image_idx=None, image_size=None, enable=True):
        given = {"epoch": epoch, "step": step, "image_idx": image_idx, "image_size": image_size, "enable": enable}
        super().__init__(cat=ROOT_CAT, name=ROOT_NAME, **given)
        for cat, (cls, _, _) in _TREE.items():
            self._children[cat] = node = globals()[cls](enable=enable, _above=self)
            setattr(self, cat, node)


ai = AI()
compute, data, dataloader, comm, device, checkpoint, pipeline, _other = (getattr(ai, cat) for cat in _TREE)


dft_fn_orig, dftracer_orig = dft_fn, dftracer


def capture_signal(signal_number, frame):
    """A signal handler that ends the log and the process. The client does not install it."""
    dftracer.get_instance().finalize()
    sys.exit(signal_number)


@quiet
def trace_handler(prof):
    """A function for on_trace_ready of torch.profiler: it records one event of category PP for
    each operation, at the time at which it ran."""
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
        args["input_size"] = sum(len(shape) for shape in getattr(e, "input_shapes", None) or ())
        t = base + int(e.time_range.start * 1000)
        _ring.event(_ring.name(e.key, "PP"), t, base + int(e.time_range.end * 1000), args, tid=getattr(e, "thread", 0) or 0)


_DYNAMO = ("Dynamo", "dynamo", "create_backend", "dftracer_dynamo_backend", "create_detailed_op_name", "TORCH_AVAILABLE")
_ENTITIES = {
    "EntityStore": "MEMORY GPU_MEMORY LOCAL_DISK PARALLEL_FS BURST_BUFFER OBJECT_STORE DATABASE NETWORK OTHER",
    "EntityRole": "UNKNOWN INPUT OUTPUT INTERMEDIATE PARAMETER REFERENCE",
    "EntityRelation": "USED GENERATED INVALIDATED UPDATED DERIVED_FROM=16 REVISION_OF CONTAINS PART_OF SPECIALIZATION_OF ALTERNATE_OF DEPENDS_ON",
}
EntityID = int


def __getattr__(name):
    """Loads objects that need other modules, which few programs use: enums are made at their
    first use."""
    if name in _DYNAMO:
        import importlib

        return getattr(importlib.import_module("trainspan.dynamo"), name)
    if name in _ENTITIES:
        from enum import IntEnum

        members, number = {}, -1
        for word in _ENTITIES[name].split():
            word, _, given = word.partition("=")
            members[word] = number = int(given or number + 1)
        globals()[name] = made = IntEnum(name, members, module=__name__)
        return made
    if name in _EVENTS:
        from ._enum import StrEnum

        globals()[name] = made = StrEnum(name, {word.upper(): word for word in _EVENTS[name].split()}, module=__name__)
        return made
    if name in ("TagType", "TagDType"):
        from . import _enum

        return getattr(_enum, name)
    if name in _PARTS:
        return sys.modules[__name__]
    raise AttributeError("module %r has no attribute %r" % (__name__, name))


# DFTracer's own paths below this module.
_PATHS = """python logger python.logger python.ai python.ai_common python.ai_init python.common python.env python.torch python.torch.common
python.torch.profiler python.dynamo python.dbg python.dbg.ai python.dbg.logger python.dbg.torch python.dbg.torch.profiler""".split()
_PARTS = {part for path in _PATHS for part in path.split(".")}
__path__ = []
for _old in _PATHS:
    sys.modules[__name__ + "." + _old] = sys.modules[__name__]
python = logger = sys.modules[__name__]


def alias():
    """Puts this module in the place of DFTracer's, for a program whose imports cannot be
    changed: `import dftracer.python` then returns it. Raises an ImportError if DFTracer is
    installed."""
    here = sys.modules[__name__]
    if sys.modules.get("dftracer") is here:
        return
    from importlib.util import find_spec

    if "dftracer" in sys.modules or find_spec("dftracer") is not None:
        raise ImportError("trainspan.dftracer.alias() would hide the installed DFTracer: uninstall dftracer and pydftracer, or remove the call")
    for path in [""] + _PATHS:
        sys.modules["dftracer" + "." * bool(path) + path] = here


if DFTRACER_ENABLE and DFTRACER_LOG_LEVEL in ("DEBUG", "INFO"):
    setup_stream_logger().info("DFTracer was enabled.")

__all__ = [_old for _old in dict(globals()) if not _old.startswith("_") and _old not in ("sys", "quiet", "python", "logger")]
__all__ += ["Dynamo", "dynamo", "create_backend", "TagType", "TagDType", *_ENTITIES, *_EVENTS]
del _cat, _cls, _event, _words, _old
