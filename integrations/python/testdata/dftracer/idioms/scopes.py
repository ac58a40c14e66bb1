"""Uses nodes like other objects: on exit stacks, by their class, as base classes, stored."""

import asyncio
import contextlib
import functools
import inspect

from dftracer.python import DFTracerAI, ai, dft_fn, dftracer

log = dftracer.initialize_log("out.pfw", None, -1)

with contextlib.ExitStack() as stack:
    print(stack.enter_context(ai.compute) is ai.compute)
    stack.enter_context(ai.compute.forward)
    stack.callback(print, "unwound")
for on in (True, False):
    with ai.data.item if on else contextlib.nullcontext():
        pass
kind = type(ai.comm.send)
print(kind.__enter__(ai.comm.send) is ai.comm.send, kind.__exit__(ai.comm.send, None, None, None))
print(ai.comm.send.start(), ai.comm.send.stop(), callable(kind.start), callable(kind.stop))


class Counted(DFTracerAI):
    """Overrides the methods of a with statement, and calls the overridden ones."""

    entered = left = 0

    def __enter__(self):
        self.entered += 1
        return super().__enter__()

    def __exit__(self, *error):
        self.left += 1
        return super().__exit__(*error)

    def start(self, metadata=False):
        print("start")
        super().start(metadata)


counted = Counted(cat="own", name="counted")


@counted
def decorated(x):
    return x


with counted as inside:
    print(inside is counted, isinstance(inside, DFTracerAI))
counted.start()
counted.stop()
decorated(1)
print(counted.entered, counted.left, counted.cat, counted.name)

start, stop = ai.device.transfer.start, ai.device.transfer.stop
start()
stop()
ai.device.transfer.disable()
start()
stop()
ai.device.transfer.enable()
start()
stop()
ai.device.disable()
with ai.device.transfer:
    pass
ai.device.transfer.enable()
with ai.device.transfer, ai.device:
    pass

# A span whose node is enabled at its begin and disabled at its end is not recorded; if it is enabled again, it is.
with ai.data.preprocess:
    ai.data.disable()
ai.data.enable()
with ai.data.preprocess:
    ai.data.disable()
    ai.data.enable()


@ai.compute.backward
def documented(a, b=2, *rest, key=None):
    """What it does."""
    return a, b, rest, key


documented.mark = 5
print(documented(1, key=3), documented.__name__, documented.__qualname__, documented.__doc__, documented.mark, inspect.signature(documented))
print(functools.partial(documented, 7)(), documented.__wrapped__(8), inspect.unwrap(documented) is documented.__wrapped__)


@ai.checkpoint.capture
async def saved(x):
    return x + 1


@ai.compute.step
def numbers():
    yield from range(3)


print(asyncio.run(saved(1)), list(numbers()))


class Model:
    @ai.compute.init
    def __init__(self, width):
        self.width = width

    @ai.compute.step
    def method(self, x):
        return self.width * x

    @staticmethod
    @ai.pipeline.test
    def static(x):
        return x

    @classmethod
    @ai.pipeline.train
    def made(cls, width):
        return cls(width)


print(Model.made(3).method(4), Model.static(5), Model(width=2).width)
for node in (ai.compute, ai.checkpoint.io.read, ai.comm.send.derive("x")):
    print(str(node.cat), str(node.name), hasattr(node, "__enter__"), inspect.ismethod(node.start), inspect.ismethod(node.__exit__))
off = ai.other.log(enable=False)
with off:
    pass


@ai.other.log(enable=False)
def quiet():
    return 1


@ai.other.log
def loud():
    return 2


print(quiet(), loud())
ai.other.log.disable()
loud()
ai.other.log.enable()
loud()
try:
    with ai.pipeline.evaluate:
        raise KeyError("x")
except KeyError as e:
    print(repr(e))
with dft_fn("category", "name") as fn:
    print(type(fn).__name__)
print(inspect.isgenerator(ai.dataloader.fetch.iter([1])), list(ai.dataloader.fetch.iter("ab")), sum(ai.dataloader.fetch.iter(range(3), include_block=False)))
log.finalize()
print("done")
