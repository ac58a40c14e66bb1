"""DFTracer's Python API. A program that was written for it runs with

    from trainspan.dftracer import ai, dft_fn, dftracer

in place of `from dftracer.python import ...` or `from dftracer.logger import ...`;
trainspan.dftracer.python and trainspan.dftracer.logger are names of this module.

As with DFTracer, nothing is recorded unless DFTRACER_ENABLE is 1. Under
`trainspan run` it is recorded unless DFTRACER_ENABLE is 0.
"""

import itertools
import sys

from . import _ring, quiet
from ._fn import _iterate, _wrap, dft_fn
from ._log import *  # noqa: F403 the names of the original
from ._log import _gather, _meta, _nothing


def get_iter_block_name(name):
    return name if name.endswith(".block") else name + ".block"


def get_iter_handle_name(name):
    return name if name.endswith(".iter") else name + ".iter"


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


class DFTracerAI:
    """A node of the tree: a category and a name. It is a decorator, a context
    manager, and has start and stop."""

    # Functions in slots: a with statement finds them as if they were methods, and
    # each node has its own, which know their span.
    __slots__ = ("__enter__", "__exit__", "start", "stop", "cat", "name", "off", "_n", "_above", "_children", "_extra", "_updates", "_wanted", "__dict__", "__weakref__")

    def __init__(self, cat, name=None, epoch=None, step=None, image_idx=None, image_size=None, enable=True, _above=None, _variant=0):
        self.cat, self.name = str(cat), str(name or cat)
        self._above, self._children, self._updates = _above, {}, {}
        self._extra = _gather({}, None, (epoch, step, image_idx, image_size)) if _variant else {}
        self._n = _ring.name(self.name, self.cat, _variant, _above._n if _above is not None else 0)
        self._set(enable and (_above is None or not _above.off))
        if not _variant and (epoch, step, image_idx, image_size) != (None,) * 4:
            self.update(epoch, step, image_idx, image_size)

    def _set(self, on):
        self._wanted, self.off = bool(on), not (on and DFTRACER_ENABLE)
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
        return _wrap(node._n, fn, node, (lambda args, kwargs: dict(node._extra)) if node._extra else None)

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
        _gather(self._updates, args, (epoch, step, image_idx, image_size))
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
        return dftracer.get_instance().get_time()

    def log_metadata(self, key, value):
        if not self.off:
            _meta(key, value)

    @property
    def profiler(self):
        return self

    # What the original keeps of a node, for those who look at it.

    @property
    def _enable(self):
        return self._wanted

    _cat = property(lambda self: self.cat)
    _name = property(lambda self: self.name)
    _arguments_int = property(lambda self: self._given(int))
    _arguments_float = property(lambda self: self._given(float))
    _arguments_string = property(lambda self: self._given(str))

    def _given(self, kind):
        given, node = dict(self._extra), self
        while node is not None:
            given, node = dict(node._updates, **given), node._above
        return {key: (0, value) for key, value in given.items() if isinstance(value, kind)}


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
    "other": ("Other", "OtherEvent", "log"),
}
_IO = ("data", "checkpoint", "other")  # that have a node for I/O
ProfileCategory = _events("ProfileCategory", _TREE)


class IO(DFTracerAI):
    """I/O of a category: open, read, write, close."""

    __slots__ = ()

    def __init__(self, cat, parent_name, epoch=None, step=None, image_idx=None, image_size=None, enable=True, _above=None):
        name = str(parent_name) + ".io"
        DFTracerAI.__init__(self, cat, name, epoch, step, image_idx, image_size, enable, _above)
        self.create_children({word: name + "." + word for word in ("open", "read", "write", "close")})


def _category(cls, cat, words):
    def __init__(self, epoch=None, step=None, image_idx=None, image_size=None, enable=True, _above=None):
        DFTracerAI.__init__(self, cat, cat, epoch, step, image_idx, image_size, enable, _above)
        self.create_children({word: "other." + word if cat == "other" else word for word in words})
        if cat in _IO:
            self._children["io"] = self.io = IO(cat, cat, enable=enable, _above=self)

    return type(cls, (DFTracerAI,), {"__slots__": (), "__init__": __init__})


IOEvent = _events("IOEvent", ("open", "read", "write", "close"))
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
compute, data, dataloader, comm, device, checkpoint, pipeline, _other = (getattr(ai, cat) for cat in _TREE)


dft_fn_orig, dftracer_orig = dft_fn, dftracer


def capture_signal(signal_number, frame):
    """A handler that ends the log and the process; nothing installs it here."""
    dftracer.get_instance().finalize()
    sys.exit(signal_number)


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
    """What takes other modules, which few programs need."""
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
    """Puts this module in the place of DFTracer's, for a program whose imports are not to
    be changed: `import dftracer.python` gives it from now on. It is an ImportError
    where DFTracer is installed."""
    here = sys.modules[__name__]
    if sys.modules.get("dftracer") is here:
        return
    from importlib.util import find_spec

    if "dftracer" in sys.modules or find_spec("dftracer") is not None:
        raise ImportError("trainspan.dftracer.alias() would hide DFTracer, which is installed: uninstall dftracer and pydftracer, or leave it out")
    for path in [""] + _PATHS:
        sys.modules["dftracer" + "." * bool(path) + path] = here


if DFTRACER_ENABLE and DFTRACER_LOG_LEVEL in ("DEBUG", "INFO"):
    setup_stream_logger().info("DFTracer was enabled.")

__all__ = [_old for _old in dict(globals()) if not _old.startswith("_") and _old not in ("sys", "itertools", "quiet", "python", "logger")]
__all__ += ["Dynamo", "dynamo", "create_backend", *_ENTITIES]
del _cat, _cls, _event, _words, _old
