"""Data: the waits for a DataLoader's batches, and what its workers do."""

import os
import sys
from threading import get_ident

from trainspan import _ring

from . import hooks


def _dataloader(module):
    cls, loader = module._BaseDataLoaderIter, module.DataLoader
    wait, loop, here, end = cls.__next__, hooks._loop, hooks.PHASE, _ring.end
    start_up = loop.start_up

    def asked(iterator):
        loop.asks(iterator)
        start_up.waits()
        return True

    n, start, begin = hooks._begin("data", "fetch.iter", "dataloader", asked)
    recorded = start is not hooks._none
    start_workers = hooks.starter("data", "fetch.start", "dataloader")

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
            if feeds:
                start_up.came(True)
                if "end_of_data" in args:
                    loop.ended(id(self))
            raise
        finally:
            inside.busy = 0
        if quick:
            loop.next_iteration(token, batch)
        else:
            end(token, None if feeds else {"background": 1})
            if feeds:
                start_up.came(True)
                loop.got(self, batch)
        return batch

    def before(*_):
        if not loop.here():
            return None
        asked(None)
        return (start_workers(),)

    def after(token, *_):
        _ring.end(token[0])
        start_up.came(False)

    hooks.replace(cls, "__next__", __next__)
    hooks.replace(loader, "__iter__", hooks.wrap(loader.__iter__, before, after, here))


def _fetchers(module):
    """The work of a loader's worker, in its process."""
    start, pid = hooks.starter("worker", "fetch", "dataloader"), 0

    def before(*_):
        nonlocal pid
        if pid != os.getpid():
            info = getattr(sys.modules.get("torch.utils.data._utils.worker"), "_worker_info", None)
            if info is None:
                return None
            pid = os.getpid()
            hooks._Phase.first = hooks.PHASE.inside.busy = 1  # nothing else is recorded here
            _ring.meta("role", "dataloader_worker")
            _ring.meta("worker", int(info.id))
        return start()

    for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
        cls = getattr(module, name, None)
        if cls is not None:
            hooks.replace(cls, "fetch", hooks.wrap(cls.fetch, before, hooks._end, hooks._Here()))


MODULES = {"torch.utils.data.dataloader": _dataloader, "torch.utils.data._utils.fetch": _fetchers}
