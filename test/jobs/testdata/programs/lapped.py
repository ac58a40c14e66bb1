"""More than a ring holds: the file may have no more than three regions, and arguments fill them."""

import resource

resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, 2 << 20))

from trainspan.dftracer import ai, dft_fn  # noqa: E402

with ai:
    for step in range(100):
        ai.update(epoch=0, step=step)
        with dft_fn("io", "write") as f:
            f.update(args={"text": str(step) + "x" * 12000})
