"""What watching PyTorch costs:

    trainspan run --quiet -- python3 benchmarks/python/torch_cost.py

A small model trains on the CPU in one process. Blocks of steps with the hooks and
without alternate, so that what else the machine does meets both; the ratio is
the median over pairs of neighbouring blocks, with the interval of 95 % of a
bootstrap. Memory is that of two processes after the same steps.
"""

import os
import random
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

PAIRS, STEPS, SKIP = int(os.environ.get("PAIRS", 60)), 30, 5


class Rows(Dataset):
    def __init__(self, width):
        self.row = torch.randn(width)

    def __len__(self):
        return 1 << 30

    def __getitem__(self, i):
        return self.row


def trainer(width, layers, batch):
    model = nn.Sequential(*[nn.Linear(width, width) for _ in range(layers)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def steps():
        for x in DataLoader(Rows(width), batch_size=batch, sampler=iter(int, 1)):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            yield

    return steps()


def hooks():
    """What is watched that a step meets: its owner, name, and both forms."""
    call = vars(nn.Module)["__call__"]
    found = [(nn.Module, "__call__", call, getattr(call, "plain", call))]
    backward = "_engine_run_backward" if hasattr(torch.autograd, "_engine_run_backward") else "backward"
    for owner, name in ((torch.autograd, backward), (torch.optim.Optimizer, "zero_grad"), (_BaseDataLoaderIter, "__next__"), (torch.optim.SGD, "step")):
        put = owner.__dict__[name]
        found.append((owner, name, put, put.__wrapped__ if "trainspan" in put.__code__.co_filename else put))
    for name in "_global_optimizer_pre_hooks", "_global_optimizer_post_hooks":  # of torch 2, in the place of the step
        put = getattr(sys.modules["torch.optim.optimizer"], name, None)
        if put:
            found.append((sys.modules["torch.optim.optimizer"], name, put, type(put)()))
    return [f for f in found if f[2] is not f[3]]


def block(steps):
    times = []
    for i in range(SKIP + STEPS):
        start = time.perf_counter_ns()
        next(steps)
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times[SKIP:]) / 1e3


CALLS = 50  # in what is measured of collectives


def collectives():
    """All-reduces of one number, in a group of one process."""
    x = torch.zeros(1)
    while True:
        for _ in range(CALLS):
            dist.all_reduce(x)
        yield


def compare_collectives():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    put = dist.all_reduce
    plain = put
    while "trainspan" in plain.__code__.co_filename:
        plain = plain.__wrapped__
    compare("%d collectives" % CALLS, collectives(), [(dist, "all_reduce", put, plain)] if put is not plain else [], 1)


def compare(name, steps, watched=None, least=5):
    watched = hooks() if watched is None else watched
    if len(watched) < least:
        sys.exit("%d functions are watched and not %d: run this below trainspan run" % (len(watched), least))
    for _ in range(3):
        block(steps)
    pairs = []
    for i in range(PAIRS):
        both = {}
        for on in ((0, 1), (1, 0))[i % 2]:
            for owner, f, hooked, plain in watched:
                setattr(owner, f, hooked if on else plain)
            both[on] = block(steps)
        pairs.append((both[1], both[0]))
    for owner, f, hooked, _ in watched:  # for the next comparison
        setattr(owner, f, hooked)
    rng = random.Random(1)
    ratios = [a / b for a, b in pairs]
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(2000))
    apart = statistics.median(a - b for a, b in pairs)
    print(
        "%-18s step %8.1f us, watched %+.2f %% (95 %%: %+.2f to %+.2f), %+.1f us"
        % (name, statistics.median(b for _, b in pairs), 100 * (statistics.median(ratios) - 1), 100 * (medians[50] - 1), 100 * (medians[1949] - 1), apart)
    )


def memory():
    """KiB in use after 500 steps."""
    steps = trainer(64, 2, 8)
    for _ in range(500):
        next(steps)
    with open("/proc/self/smaps_rollup") as f:
        print(next(int(line.split()[1]) for line in f if line.startswith("Pss:")))


def start():
    """Milliseconds of a process that does nothing, and how much longer it takes with
    the client on its path."""
    plain, apart = [], []
    for _ in range(60):
        times = []
        for path in ("", os.environ["PYTHONPATH"]):
            at = time.perf_counter()
            subprocess.check_call([sys.executable, "-c", "pass"], env=dict(os.environ, PYTHONPATH=path))
            times.append(time.perf_counter() - at)
        plain.append(times[0] * 1e3)
        apart.append((times[1] - times[0]) * 1e3)
    return statistics.median(plain), statistics.median(apart)


def main():
    torch.set_num_threads(1)
    if sys.argv[1:] == ["memory"]:
        return memory()
    compare("tiny", trainer(4, 1, 4))
    compare("about 1 ms", trainer(180, 3, 8))
    compare("about 20 ms", trainer(540, 3, 16))
    compare_collectives()
    print("start of a process %.1f ms, watched %+.1f ms" % start())
    used = {}
    for on in "01":
        env = dict(os.environ, TRAINSPAN_TORCH=on)
        used[on] = statistics.median(int(subprocess.check_output([sys.executable, __file__, "memory"], env=env)) for _ in range(5))
    print("memory             %.1f MB more in a process that is watched" % ((used["1"] - used["0"]) / 1024))


if __name__ == "__main__":
    main()
