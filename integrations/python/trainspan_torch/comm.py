"""Collectives: those that a program or a library calls, those of compiled and functional code,
and the waits for them. Each is one span, even if it is visible in several of these ways, and
has its arguments from its start on: a rank that is killed or hangs inside leaves it open."""

import atexit
import inspect
import json
import sys
import weakref
from threading import get_ident

from trainspan import _ring, quiet, unframed

from . import hooks

# Names in all versions: 2.14 has reduce_scatter_single for reduce_scatter_tensor.
_COLLECTIVES = {
    "all_reduce": "all_reduce all_reduce_coalesced",
    "all_gather": "all_gather all_gather_into_tensor all_gather_single _all_gather_base all_gather_coalesced all_gather_object",
    "reduce_scatter": "reduce_scatter reduce_scatter_tensor reduce_scatter_single _reduce_scatter_base", "reduce": "reduce",
    "bcast": "broadcast broadcast_object_list", "gather": "gather gather_single gather_into_tensor gather_object",
    "scatter": "scatter scatter_object_list", "all_to_all": "all_to_all all_to_all_single", "barrier": "barrier monitored_barrier",
    "send": "send isend send_object_list", "receive": "recv irecv recv_object_list", "rendezvous": "init_process_group", "comm.init": "new_group split_group",
}
_FUNCTIONAL = {
    "all_reduce": "all_reduce all_reduce_coalesced all_reduce_autograd",
    "all_gather": "all_gather_tensor all_gather_tensor_autograd all_gather_into_tensor_coalesced",
    "reduce_scatter": "reduce_scatter_tensor reduce_scatter_tensor_autograd reduce_scatter_tensor_coalesced",
    "all_to_all": "all_to_all_single all_to_all_single_autograd", "bcast": "broadcast",
}
_HOOKED = {
    "ALLREDUCE": "all_reduce", "ALLGATHER": "all_gather", "REDUCE_SCATTER": "reduce_scatter", "REDUCE": "reduce", "BROADCAST": "bcast",
    "GATHER": "gather", "SCATTER": "scatter", "ALLTOALL": "all_to_all", "BARRIER": "barrier", "SEND": "send", "RECV": "receive",
}
_PAIRS = ("send", "receive")
_SET_UP = ("rendezvous", "comm.init")
_FIXED = 256  # names with fixed arguments; beyond, the spans have them

_c10d = None


class _Group:
    """A process group: its description, and its number of collectives."""

    __slots__ = "seq", "world", "said", "names", "beside"

    def __init__(self, name, size, world):
        self.seq = 0
        self.world = world
        self.said = (("pg", name), ("group_size", size))
        self.names = {}  # of spans of the training thread, by the kind of their collectives
        self.beside = {}  # and of other threads


_NO_GROUP = _Group("", 0, False)  # for waits, and for the creation of groups
_NO_GROUP.said = ()
_groups = {}
_objects = {}  # by the id of a group: a weak reference, because a group must not outlive the program's use, and its data
_made = 0  # names with arguments
_received = {}  # by the id of the result of a receive that only started: the arguments of _begin for the wait for it
_RECEIVED = 1024  # the most of them: a program may drop results


def _known(group):
    """Returns the data of the group of a call; None is all ranks."""
    if group is None:
        group = _c10d.GroupMember.WORLD
    found = _objects.get(id(group))
    return found[1] if found is not None and found[0]() is group else _look_up(group)


@quiet
def _look_up(group):
    """Returns the data of a new group. In functional code it may have several forms that torch
    accepts: the name of a group, a mesh, a dimension of one."""
    if not isinstance(group, _c10d.ProcessGroup):
        name = sys.modules["torch.distributed._functional_collectives"]._resolve_group_name(group)
        if name in _groups:
            return _groups[name]
        group = next(g for g, n in _c10d._world.pg_names.items() if n == name)
    name = str((getattr(_c10d, "_pg_names", None) or _c10d._world.pg_names)[group])
    known = _groups.get(name)
    if known is None:
        known = _groups[name] = _Group(name, group.size(), group is _c10d.GroupMember.WORLD or group.size() == _c10d.get_world_size())
        if not known.world:
            _ring.meta("group." + name, json.dumps([_c10d.get_global_rank(group, i) for i in range(min(group.size(), 1024))]))
    _objects[id(group)] = weakref.ref(group), known
    return known


def said(group):
    """Returns the arguments of the wait of a group with fewer ranks than the job."""
    known = _known(group)
    return {} if known.world else dict(known.said)


def _bytes(value):
    """Returns the bytes of a tensor, or of the tensors of a list."""
    if isinstance(value, (list, tuple)):
        return sum(map(_bytes, value))
    return value.numel() * value.element_size() if hasattr(value, "element_size") else 0


def _dtype(value):
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return getattr(value, "dtype", None)


def _cat(event):
    return "startup" if event == "rendezvous" else "comm"


def _name(event, group, size, dtype, later, peer, trains, seq):
    """Returns the name of a span, its arguments and its number in the group, which becomes an
    argument if there are too many names with arguments."""
    global _made
    args = () if group.world and event in _PAIRS else group.said
    if peer is not None:
        args += (("peer", peer),)
    for name, value in (("bytes", size), ("dtype", dtype and str(dtype).rpartition(".")[2]), ("async", int(later)), ("background", int(not trains))):
        if value:
            args += ((name, value),)
    if _made >= (_FIXED if trains else _FIXED // 2):  # some are reserved for the training
        return _ring.name(event, _cat(event), "torch"), dict(args, seq=seq) if seq else dict(args), 0
    _made += 1
    n = _ring.name(event, _cat(event), "torch", 0, args or None)
    (group.names if trains else group.beside)[event, size, dtype, later, peer] = n
    return n, None, seq


def _begin(event, group=None, size=0, dtype=None, later=False, peer=None, asked=True):
    """Begins a collective, on the host and where the device waits for it: returns the argument
    of _end. One without a Python call is not nested in a span of the program."""
    loop, device, args, mark, seq = hooks._loop, hooks._device, None, None, 0
    if asked and _ring.slots.shared and loop.foreign(_ring.name(event, _cat(event), "torch")):
        return None
    group, trains = group or _NO_GROUP, get_ident() == loop.thread
    if group is not _NO_GROUP and event not in _PAIRS:
        seq = group.seq = group.seq + 1
    n = (group.names if trains else group.beside).get((event, size, dtype, later, peer))
    if not n:
        n, args, seq = _name(event, group, size, dtype, later, peer, trains, seq)
    if device is not None and trains and not loop.step & device.skip and event not in _SET_UP:
        mark = device.begin_wait(event)
    return _ring.start(n), seq, args, mark


def _end(span, *_):
    token, seq, args, mark = span
    if mark is not None:
        hooks._device.end(mark, args)
    _ring.end(token, args or None, None, None, seq)


def _collectives(module):
    global _c10d
    _c10d = module
    if "comm" not in hooks._on:
        return
    for event, names in _COLLECTIVES.items():
        for name in names.split():
            fn = getattr(module, name, None)
            if inspect.isfunction(fn):
                hooks.replace(module, name, _collective(fn, event))
    if hasattr(module, "batch_isend_irecv"):
        _batch(module)
    _waits(module)
    if hasattr(module, "_new_process_group_helper"):
        _hooks(module)


def _waits(module):
    """Records the later wait for the result of a call with async_op."""
    work = getattr(module, "Work", None) or sys.modules["torch._C._distributed_c10d"].Work

    def before(args, _):
        known = _received.pop(id(args[0]), None) if _received else None
        return _begin("wait") if known is None else _begin("receive", *known)

    work.wait = hooks.wrap(work.wait, before, _end, hooks.COMM)


def _rank(peer, in_group, group):
    """Returns the rank in the job of the other rank of a message, or None if it is not known:
    a receive from any rank."""
    if peer is None and in_group is not None:
        peer = _c10d.get_global_rank(group or _c10d.GroupMember.WORLD, in_group)
    return peer if type(peer) is int and peer >= 0 else None


def _begun(work, *begin):
    """Remembers a receive that only started: the wait for its result is the receive."""
    if len(_received) >= _RECEIVED:
        _received.clear()
    if work is not None and work is not hooks.FAILED:
        _received[id(work)] = begin


def _collective(fn, event, names=None):
    sets_up = event in _SET_UP
    names = names or list(inspect.signature(fn).parameters)
    buffers = [(i, n) for i, n in enumerate(names[:2]) if "tensor" in n or n in ("output", "input", "input_list", "self")]
    at_group, at_later = (names.index(n) if n in names else len(names) + 64 for n in ("group", "async_op"))
    always = fn.__name__ in ("isend", "irecv") or fn.__module__.endswith("._functional_collectives")
    end = {"send": "dst", "receive": "src"}.get(event)
    at_peer = names.index(end) if end in names else len(names) + 64
    loop, tensor = hooks._loop, sys.modules["torch"].Tensor

    def peer_of(args, kwargs, group):
        peer = args[at_peer] if at_peer < len(args) else kwargs.get(end)
        return _rank(peer, kwargs.get("group_" + end), group)

    def before(args, kwargs):
        if sets_up:
            loop.helper = False
            loop.start_up.other()
        if not loop.thread:
            loop.here()
        if sets_up:
            return _begin(event)
        size, dtype = 0, None
        for i, n in buffers:
            value = args[i] if i < len(args) else kwargs.get(n)
            if type(value) is tensor:  # the usual case
                more, dtype = value.numel() * value.element_size(), dtype or value.dtype
            else:
                more, dtype = _bytes(value), dtype or _dtype(value)
            if more > size:
                size = more
        group = args[at_group] if at_group < len(args) else kwargs.get("group")
        later = always or bool(args[at_later] if at_later < len(args) else kwargs.get("async_op"))
        if end:
            span = _begin(event, _known(group), size, dtype, later, peer_of(args, kwargs, group))
            return span and (span, group, size, dtype)
        return _begin(event, _known(group), size, dtype, later)

    def sent(token, args, kwargs, work):
        span, group, size, dtype = token
        _end(span)
        if event == "receive" and always:
            _begun(work, _known(group), size, dtype, False, peer_of(args, kwargs, group))

    def ended(span, args, kwargs, work):
        _end(span)
        if _received and work is not None:
            _received.pop(id(work), None)  # of a receive whose result is gone

    def after(span, *_):
        _end(span)
        _ring.meta("rank", _c10d.get_rank())  # raises an error if there is no group
        _ring.meta("world_size", _c10d.get_world_size())

    return hooks.wrap(fn, before, after if sets_up else sent if end else ended, hooks.COMM)


def _batch(module):
    """Records sends and receives of one batch: one span for each."""
    fn = module.batch_isend_irecv

    def before(args, kwargs):
        ops = args[0] if args else kwargs.get("p2p_op_list")
        found = []  # before the first begins: an invalid one raises an error
        for op in ops:
            event = "send" if "send" in op.op.__name__ else "receive"
            found.append((event, (_known(op.group), _bytes(op.tensor), _dtype(op.tensor)), _rank(op.peer, None, op.group)))
        return [(_begin(event, *begin, True, peer), event == "receive" and (*begin, False, peer)) for event, begin, peer in found]

    def after(spans, _, __, works):
        for span, _ in reversed(spans):
            if span is not None:
                _end(span)
        if works is not hooks.FAILED and works and len(works) == len(spans):
            for work, (_, begin) in zip(works, spans):
                if begin:
                    _begun(work, *begin)

    hooks.replace(module, "batch_isend_irecv", hooks.wrap(fn, before, after, hooks.COMM))


def _hooks(module):
    """Records collectives without a Python call: those of DistributedDataParallel's reducer and
    of compiled code. Groups have hooks for them from 2.14 on."""
    make, here = module._new_process_group_helper, hooks.COMM
    under_way, hooked, destroy = {}, [], module.destroy_process_group

    @quiet
    def release(which=None):
        """Removes the hooks. A group that outlives the interpreter, such as that of a failed
        process, would free them then, which ends it with SIGABRT."""
        for ref in hooked[:]:
            group = ref()
            if which is None or group is None or group is which:
                hooked.remove(ref)
                if group is not None:
                    group.unregister_pre_hook(0x7453)
                    group.unregister_post_hook(0x7453)

    def destroy_process_group(group=None):
        try:
            release(None if group is module.GroupMember.WORLD else group)
            return destroy(group)
        except BaseException as e:
            unframed(e)
            raise

    # The arguments of a hook, including tensors, are created when they are accessed. The hook
    # accesses none if a Python function has recorded the collective.

    def before(group):
        @quiet
        def begins(args):
            event = _HOOKED.get(args.name.name)
            group_of = group()
            tensors = args.input_tensors or args.output_tensors
            if event and group_of is not None and (not tensors or tensors[0].is_cpu):
                under_way[args.op_id, id(group_of)] = _begin(event, _known(group_of), _bytes(tensors), _dtype(tensors), True, None, False)

        return lambda args: here.inside.busy or begins(args)

    def after(group):
        @quiet
        def ends(args):
            span = under_way.pop((args.op_id, id(group())), None)
            if span is not None:
                _end(span)

        return lambda args: under_way and ends(args)

    @quiet
    def follow(made, args, kwargs):
        backend, group = kwargs["backend"] if "backend" in kwargs else args[3], made[0] if isinstance(made, tuple) else made
        # For a device only after a test there.
        if hasattr(group, "register_pre_hook") and str(backend).lower() == "gloo":
            ref = weakref.ref(group)
            group.register_pre_hook(0x7453, before(ref))
            group.register_post_hook(0x7453, after(ref))
            if not hooked:
                atexit.register(release)
            hooked.append(ref)

    def _new_process_group_helper(*args, **kwargs):
        try:
            made = make(*args, **kwargs)
            follow(made, args, kwargs)
            return made
        except BaseException as e:
            unframed(e)
            raise

    hooks.replace(module, "_new_process_group_helper", _new_process_group_helper)
    hooks.replace(module, "destroy_process_group", destroy_process_group)


def _functional(module):
    """Records functional collectives, which DTensor uses too. The wait for their results is at
    their first use."""
    if "comm" not in hooks._on:
        return
    for event, names in _FUNCTIONAL.items():
        for name in names.split():
            fn = getattr(module, name, None)
            if inspect.isfunction(fn):
                hooks.replace(module, name, _collective(fn, event))
    if tuple(int(n) for n in sys.modules["torch"].__version__.split(".")[:2]) < (2, 6):
        # Dynamo rewrites these functions, and finds them by their identity after it has replaced a
        # function by its _torchdynamo_inline.
        for fn in getattr(module, "traceable_collective_remaps", ()):
            vars(fn).pop("_torchdynamo_inline", None)
    hooks.replace(module, "wait_tensor", hooks.wrap(module.wait_tensor, lambda *_: _begin("wait"), _end, hooks.COMM))


def _buffers(module):
    """Records the broadcast of buffers that DistributedDataParallel makes before a forward: all
    ranks synchronize there."""
    if "comm" in hooks._on:
        module._broadcast_coalesced = _collective(module._broadcast_coalesced, "bcast", ["group", "tensors"])


MODULES = {
    "torch.distributed.distributed_c10d": _collectives, "torch.distributed": _buffers,
    "torch.distributed._functional_collectives": _functional,
}
