"""Trains in a process for each function of the client, which raises an error there. Prints the
functions whose error has reached the program."""

import itertools
import multiprocessing
import os
import tempfile
import traceback

import loops
import torch
import torch.distributed as dist
from trainspan import quiet
if hasattr(torch, "compile"):
    import torch._dynamo  # DistributedDataParallel imports it
from trainspan_torch import code, comm, device, hooks, loop, parallel, startup


def faulty(*args, **kwargs):
    raise ValueError("an error of the client")


def job():
    """Uses all of the hooks, on their fast paths too."""
    loops.model.load_state_dict(loops.network().state_dict())
    for name in ("chunks", "plain", "same_iterator", "evaluate_in_training_mode", "acts", "no_loader", "batch_ahead"):
        loops.model.train()
        getattr(loops, name)()
    torch.optim.SGD(loops.model.parameters(), lr=0.1)
    scaler = getattr(torch.amp, "GradScaler", torch.cuda.amp.GradScaler)(enabled=False)
    loops.model(torch.randn(2, 8)).sum().backward()
    scaler.step(loops.optimizer)
    with tempfile.TemporaryDirectory() as folder:
        torch.save(loops.model.state_dict(), folder + "/model.pt")
        torch.load(folder + "/model.pt")
        dist.init_process_group("gloo", store=dist.FileStore(folder + "/store", 1), rank=0, world_size=1)
        work = dist.all_reduce(torch.ones(4), async_op=True)
        work.wait()
        dist.barrier()
        torch.nn.parallel.DistributedDataParallel(loops.network())(torch.randn(2, 8)).sum().backward()
        dist.destroy_process_group()
    hooks._loop.finish(os.getpid())


class Gone:
    """An attribute that another thread sets to None after each time that it is read."""

    def __init__(self, last):
        self.next = itertools.cycle((last, None)).__next__

    def __get__(self, *_):
        return self.next()

    def __set__(self, *_):
        pass


def fails(owner, name):
    if name == "lines":
        owner.lines = Gone(hooks._loop.code)
    else:
        setattr(owner, name, quiet(faulty) if hasattr(getattr(owner, name), "__wrapped__") else faulty)
    try:
        job()
    except Exception as e:
        frames = [frame for frame, _ in traceback.walk_tb(e.__traceback__)]
        print(owner.__name__, name, "in", " ".join(frame.f_code.co_name for frame in frames), type(e).__name__, e)


# Those that every hook calls have nothing that could fail.
SURE = "__init__", "reset", "inside", "flows"

if __name__ == "__main__":
    found = [
        (owner, name)
        for owner in (loop.Loop, startup.StartUp, code.Code, parallel.Gradients, device.Device, comm, code)
        for name, value in list(vars(owner).items())
        if callable(value) and getattr(value, "__module__", "").startswith("trainspan") and not isinstance(value, type) and name not in SURE
    ]
    for owner, name in [*found, (loop.Loop, "lines")]:
        process = multiprocessing.get_context("fork").Process(target=fails, args=(owner, name))
        process.start()
        process.join(600)
        if process.exitcode is None:
            process.kill()
            process.join()
            print(owner.__name__, name, "does not end")
        elif process.exitcode:
            print(owner.__name__, name, "ends with", process.exitcode)
    print("%d functions" % len(found))
