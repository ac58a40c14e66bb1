"""A process that forks while a span is open; the child forks too, and one of them is killed."""

import os
import signal

from trainspan.dftracer import ai, dft_fn


def child(depth):
    with ai.data.item:
        with dft_fn("io", "read"):
            pass
        if depth:
            pid = os.fork()
            if pid == 0:
                child(depth - 1)
                os._exit(0)
            os.waitpid(pid, 0)
    if depth == 0:
        ai.comm.barrier.start()
        os.kill(os.getpid(), signal.SIGKILL)


with ai:
    with ai.dataloader.fetch:
        pid = os.fork()
        if pid == 0:
            child(1)
            os._exit(0)
        os.waitpid(pid, 0)
    with ai.compute.forward:
        pass
