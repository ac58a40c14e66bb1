"""Spans of every kind: of threads, failed, forgotten, crossed, switched off, with arguments."""

import threading

from trainspan.dftracer import ai, dft_fn


def work(n):
    for i in range(n):
        with ai.compute.forward:
            with dft_fn("math", "matmul") as f:
                f.update(args={"i": i, "list": [1, "a"], "x": 0.5})


@ai
def main():
    with ai.pipeline.train:
        for epoch in range(2):
            with dft_fn("pipeline", "epoch.block"):
                for step in range(3):
                    ai.update(epoch=epoch, step=step)
                    with dft_fn("pipeline", "train.iteration"):
                        work(1)
                        with ai.comm.all_reduce:
                            pass
                with ai.checkpoint.capture:
                    with dft_fn("io", "write"):
                        pass
        a, b = dft_fn("x", "a"), dft_fn("x", "b")
        a.__enter__()
        b.__enter__()
        with dft_fn("x", "inside"):
            pass
        a.__exit__(None, None, None)  # before what was started inside of it
        b.__exit__(None, None, None)
        try:
            with ai.data.preprocess:
                raise ValueError("broken")
        except ValueError:
            pass
        ai.comm.disable()
        with ai.comm.all_reduce:
            pass
        ai.comm.enable()
    first = threading.Thread(target=work, args=(2,))
    second = threading.Thread(target=work, args=(1,))
    first.start()
    first.join()
    second.start()
    second.join()


main()
