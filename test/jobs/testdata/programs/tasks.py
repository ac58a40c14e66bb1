"""Tasks of asyncio whose spans cross on one thread, and generators."""

import asyncio

from trainspan.dftracer import ai, dft_fn


async def fetch(n, first, second):
    with dft_fn("io", "fetch%d" % n):
        first.set()
        await second.wait()
        with dft_fn("io", "parse%d" % n):
            pass


async def main():
    a, b = asyncio.Event(), asyncio.Event()
    await asyncio.gather(fetch(1, a, b), fetch(2, b, a))


with ai:
    asyncio.run(main())
    fn = dft_fn("loops")
    for i in fn.iter(range(3), name="walk", iter_name="next"):
        with ai.compute.forward:
            pass
    for _ in ai.pipeline.epoch.iter(range(2)):
        with ai.compute.step:
            pass
