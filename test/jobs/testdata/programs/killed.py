"""A process that is killed with spans open on two threads: at once, and inside of each other."""

import os
import signal
import threading

from trainspan.dftracer import ai, dft_fn

ready = threading.Event()


def beside():
    with ai.checkpoint.capture:
        with dft_fn("io", "write"):
            with dft_fn("io", "sync"):
                ready.set()
                signal.pause() if threading.current_thread() is threading.main_thread() else threading.Event().wait()


with ai:
    with ai.pipeline.train:
        for step in range(2):
            ai.update(epoch=0, step=step)
            with ai.compute.forward:
                pass
        threading.Thread(target=beside, daemon=True).start()
        ready.wait()
        with dft_fn("pipeline", "train.iteration"):
            with ai.compute.backward:
                with ai.comm.all_reduce:
                    with dft_fn("math", "matmul"):
                        pass
                    os.kill(os.getpid(), signal.SIGKILL)
