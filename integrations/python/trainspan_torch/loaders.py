"""Data: the waits for a DataLoader's batches, and what its workers do."""

import os
import sys
from threading import get_ident

from trainspan import _ring, quiet

from . import hooks


def _dataloader(module):
    cls, loader = module._BaseDataLoaderIter, module.DataLoader
    wait, loop, here, gate, end, recorded = cls.__next__, hooks._loop, hooks.PHASE, hooks.Gate(hooks.PHASE, 0), _ring.end, "data" in hooks._on
    n, program, start_up = _ring.name("fetch.iter", "dataloader", "torch"), _ring.name("fetch.iter", "dataloader"), loop.start_up
    start_workers = hooks.starter("data", "fetch.start", "dataloader")

    def asked(iterator):
        loop.asks(iterator)
        start_up.waits()

    @quiet
    def begin(iterator, feeds):
        if feeds:
            asked(iterator)
        elif loop.helper:
            return None
        return None if not recorded or feeds and loop.checking and loop.foreign(program) else _ring.start(n)

    def failed(iterator, error, token, feeds):
        args = {} if feeds else {"background": 1}
        if isinstance(error, StopIteration):
            args["end_of_data"] = 1
        end(token, args)
        if feeds:
            start_up.came(True)
            if "end_of_data" in args:
                loop.ended(id(iterator))

    def look(self):
        inside = here.inside
        if inside.busy:
            return wait(self)
        feeds, token = True, None
        try:
            inside.busy = 1
            feeds = loop.here()
            token = begin(self, feeds)
            batch = wait(self)
        except BaseException as e:
            failed(self, e, token, feeds)
            raise
        finally:
            inside.busy = 0
        end(token, None if feeds else {"background": 1})
        if feeds:
            start_up.came(True)
            loop.got(self, batch)
        return batch

    def __next__(self):
        inside = gate.inside
        if get_ident() != loop.quick or inside.busy:
            return look(self)
        token = None
        try:
            inside.busy = 1
            token = loop.next_wait(id(self), n)
            if token is not None:
                batch = wait(self)
        except BaseException as e:
            failed(self, e, token, True)
            raise
        finally:
            inside.busy = 0
        if token is None:
            return look(self)
        loop.next_iteration(token, batch)
        return batch

    def before(*_):
        if not loop.here():
            return None
        asked(None)
        return (start_workers(),)

    def after(token, *_):
        _ring.end(token[0])
        start_up.came(False)

    hooks.replace(cls, "__next__", __next__ if recorded else look)
    hooks.replace(loader, "__iter__", hooks.wrap(loader.__iter__, before, after, here))


def _fetchers(module):
    """The work of a loader's worker, in its process: only there fetching is watched."""
    start, pid, made = hooks.starter("worker", "fetch", "dataloader"), 0, module._BaseDatasetFetcher.__init__

    @quiet
    def follow():
        nonlocal pid
        info = getattr(sys.modules.get("torch.utils.data._utils.worker"), "_worker_info", None)
        if info is None or pid == os.getpid():
            return
        pid, again = os.getpid(), hooks._Phase.first
        hooks._Phase.first = hooks.PHASE.inside.busy = 1  # nothing else is recorded here
        _ring.meta("role", "dataloader_worker")
        _ring.meta("worker", int(info.id))
        for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
            cls = getattr(module, name, None)
            if cls is not None and not again:
                hooks.replace(cls, "fetch", hooks.wrap(cls.fetch, lambda *_: start(), hooks._end, hooks._Here()))

    def __init__(self, *args, **kwargs):
        made(self, *args, **kwargs)
        follow()

    hooks.replace(module._BaseDatasetFetcher, "__init__", __init__)


MODULES = {"torch.utils.data.dataloader": _dataloader, "torch.utils.data._utils.fetch": _fetchers}
