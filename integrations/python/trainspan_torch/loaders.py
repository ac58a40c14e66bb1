"""Data: the waits for a DataLoader's batches, and the work of its workers."""

import os
import sys
from threading import get_ident

from trainspan import _ring, passing, quiet, unframed

from . import hooks
from .loop import INSIDE, IN_STEP, IN_WAIT

_HOLDERS = frozenset((list, tuple, dict))
TRAINS = INSIDE | IN_STEP | 1  # what an iteration has of its bits when it has trained


def _asked(iterator):
    hooks._loop.asks(iterator)
    hooks._loop.start_up.waits()


def _iterator_of(cls):
    """Records the creation of a loader's iterator, which starts its workers."""
    start_workers, loop = hooks.starter("data", "fetch.start", "dataloader"), hooks._loop

    def before(args, _):
        if not loop.here():
            return None
        # With persistent workers the iterator of the previous pass is used again, and not deleted
        # if that pass was left early.
        loop.ended(id(getattr(args[0], "_iterator", None)))
        _asked(None)
        return (start_workers(),)

    def after(token, args, _, iterator):
        workers = getattr(iterator, "_num_workers", None)
        if workers is None:  # torchdata's loader has no iterator of this kind
            workers = getattr(args[0], "num_workers", None)
        _ring.end(token[0], {"workers": workers} if isinstance(workers, int) else None)
        loop.start_up.came(False)

    hooks.replace(cls, "__iter__", hooks.wrap(cls.__iter__, before, after, hooks.PHASE))


def _stateful(module):
    """Records torchdata's loader, which makes its iterators itself."""
    _iterator_of(module.StatefulDataLoader)


def _dataloader(module):
    cls = module._BaseDataLoaderIter
    wait = hooks.delayed("data", cls.__next__)
    loop, here, end, recorded = hooks._loop, hooks.PHASE, _ring.end, "data" in hooks._on
    slots, clock, event = _ring.slots, _ring.clock, _ring.event
    n, start_up, torch = _ring.name("fetch.iter", "dataloader", "torch"), loop.start_up, sys.modules["torch"]
    Tensor, alone = torch.Tensor, getattr(torch._C, "DisableTorchFunction", None)

    def samples(batch):
        """Returns the length of the first tensor of a batch, or 0. It calls no method of a class
        of the program."""
        try:
            while type(batch) in _HOLDERS:
                batch = next(iter(batch.values())) if type(batch) is dict else batch[0]
            if type(batch) is Tensor:
                size = batch.size(0)
            elif issubclass(type(batch), Tensor):
                with alone():
                    size = Tensor.size(batch, 0)
            else:
                return 0
            return size if type(size) is int and 0 <= size < 1 << 62 else 0
        except Exception as e:  # a tensor without a dimension
            return passing(e) or 0

    @quiet
    def begin(iterator):
        """Returns whether the training asks for the batch, and the token of the wait."""
        feeds = loop.here()
        if feeds:
            _asked(iterator)
        elif loop.helper:
            return feeds, None
        return feeds, None if not recorded or feeds and loop.checking and loop.foreign(n) else _ring.start(n)

    @quiet
    def came(iterator, batch):
        start_up.came(True)
        if get_ident() == loop.thread:  # another one may train by now
            loop.got(iterator, samples(batch))

    @quiet
    def failed(iterator, error, token, feeds, step=None):
        args = {} if feeds else {"background": 1}
        if isinstance(error, StopIteration):
            args["end_of_data"] = 1
        if step is not None:
            event(n, loop.unfed(step), _ring.now(), args)
        end(token, args)
        if feeds:
            start_up.came(True)
            if "end_of_data" in args:
                loop.ended(id(iterator))

    def look(self):
        try:
            inside = here.inside
            if inside.busy or loop.inside(INSIDE):
                return wait(self)
            feeds, token, lines = True, None, loop.lines
            if lines is not None:
                lines.enter("fetch.iter", (self,))
            try:
                inside.busy = 1
                feeds, token = begin(self) or (False, None)
                batch = wait(self)
            except BaseException as e:
                failed(self, e, token, feeds)
                raise
            finally:
                inside.busy = 0
            end(token, None if feeds else {"background": 1})
            if lines is not None:
                lines.leave("fetch.iter")
            if feeds:
                came(self, batch)
            return batch
        except BaseException as e:
            unframed(e)
            raise

    def __next__(self):
        """The fast path from one batch to the next if the program trained on it, and reads from
        the same iterator, in training mode: the wait is part of the next step."""
        try:
            if loop.work & TRAINS != 1 or get_ident() != loop.quick or loop.stack[-1] is not loop.top or loop.flow != id(self) and not loop.flows(id(self)) or not loop.grad():
                return look(self)
            v, root, new = loop.frame, loop.root(), None
            if root is not None and not root.training:
                return look(self)
            try:
                new = slots.step()
                loop.step = step = loop.step + 1
                if not slots.placed:
                    v[5] = step
                v[6] = loop.samples
                v[3] = new[1] = clock()
                loop.frame, loop.work = new, IN_WAIT
                if not step & loop.rarely:
                    loop.now_and_then()
                batch = wait(self)
                new[2] = clock()
                loop.samples = samples(batch)
                loop.work = 0
                return batch
            except BaseException as e:
                if new is None and isinstance(e, StopIteration):  # the region is full
                    return look(self)
                if loop.frame is new:
                    failed(self, e, None, True, new)
                raise
        except BaseException as e:
            unframed(e)
            raise

    hooks.replace(cls, "__next__", __next__ if recorded else look)
    _iterator_of(module.DataLoader)


def _fetchers(module):
    """Records the work of a loader's worker, in its process: fetches are recorded only there."""
    start, pid, made = hooks.starter("worker", "fetch", "dataloader"), 0, module._BaseDatasetFetcher.__init__

    @quiet
    def follow():
        nonlocal pid
        info = getattr(sys.modules.get("torch.utils.data._utils.worker"), "_worker_info", None)
        if info is None or pid == os.getpid():
            return
        pid, again = os.getpid(), hooks._Phase.first
        hooks._Phase.first = hooks.PHASE.inside.busy = 1  # nothing else is recorded in this process
        _ring.meta("role", "dataloader_worker")
        _ring.meta("worker", int(info.id))
        for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
            cls = getattr(module, name, None)
            if cls is not None and not again:
                hooks.replace(cls, "fetch", hooks.wrap(cls.fetch, lambda *_: start(), hooks._end, hooks._Here()))

    def __init__(self, *args, **kwargs):
        try:
            made(self, *args, **kwargs)
            follow()
        except BaseException as e:
            unframed(e)
            raise

    hooks.replace(module._BaseDatasetFetcher, "__init__", __init__)


MODULES = {
    "torch.utils.data.dataloader": _dataloader, "torch.utils.data._utils.fetch": _fetchers,
    "torchdata.stateful_dataloader.stateful_dataloader": _stateful,
}
