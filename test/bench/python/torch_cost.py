"""Measures the cost of the hooks in PyTorch:

    trainspan run --quiet -- python3 test/bench/python/torch_cost.py [ROW...] [CLIENT]

Models train on the CPU in one process. Blocks of steps with the hooks and without
alternate, so that other load on the machine affects both. Times are CPU times; the ratio is the
median over pairs of neighbouring blocks, with a 95 % bootstrap interval. Memory is compared
between two processes after the same steps. CLIENT is a folder with another version of the
client, with the layout of integrations/python: its hooks alternate with the others. ROWs are
the first words of the printed rows; all by default.

Two wrappers around the same functions of a step, or around the collective, serve as lower
bounds for any hook in Python: "passed on" only calls the function, and "two times" stores the
time before and after the call. "profile" prints the client's time by function. It uses
cProfile, which increases all times, so only their order is meaningful.

"lines" is the cost of sampling the program's lines around the hooks in 2 of 64 steps, the
maximum rate: it compares the same hooks with and without sampling.
"""

import atexit
import cProfile
import os
import pstats
import random
import socket
import statistics
import subprocess
import sys
import time
import types

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

PAIRS, STEPS, SKIP = int(os.environ.get("PAIRS", 60)), 64, 5
OPTIMIZERS = sys.modules["torch.optim.optimizer"]


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
    for x in DataLoader(Rows(width), batch_size=batch, sampler=iter(int, 1)):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        yield


def plain(put):
    """Returns the function that a client's hook wraps."""
    if type(put).__module__.startswith("trainspan"):
        return put.plain
    if isinstance(put, dict):  # hooks of optimizers
        return type(put)()
    while "trainspan" in getattr(getattr(put, "__code__", None), "co_filename", ""):
        put = getattr(put, "__wrapped__", None)
    return put


def watched():
    """Returns the values that a client has set in PyTorch, by owner and name."""
    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)  # 1.13 wraps the step of a class with its first instance
    owners = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == "torch" and module]
    owners += [nn.Module, OPTIMIZERS.Optimizer, torch.optim.SGD, DataLoader, _BaseDataLoaderIter]
    found = {}
    for owner in owners:
        for name, put in list(vars(owner).items()):
            if (type(put) is types.FunctionType or name == "__call__") and plain(put) not in (put, None):
                found[owner, name] = put
    for name in "_global_optimizer_pre_hooks", "_global_optimizer_post_hooks":  # in torch 2
        if getattr(OPTIMIZERS, name, None):
            found[OPTIMIZERS, name] = getattr(OPTIMIZERS, name)
    return found


def put(hooks):
    for (owner, name), value in hooks.items():
        setattr(owner, name, value)


def clients():
    """Returns PyTorch's functions without a client, with the installed client, and with that of
    the folder in the arguments."""
    found = [watched()]
    folder = [a for a in sys.argv[1:] if os.path.isdir(a)]
    if folder:
        put({key: plain(value) for key, value in found[0].items()})
        sys.meta_path[:] = [f for f in sys.meta_path if not type(f).__module__.startswith(("trainspan", "sitecustomize"))]
        for name in [n for n in sys.modules if n.partition(".")[0] in ("trainspan", "trainspan_torch")]:
            del sys.modules[name]
        sys.path.insert(0, folder[0])
        import trainspan_torch

        trainspan_torch.install()
        found.append(watched())
    if len(found[-1]) < 5:
        sys.exit("nothing is watched: run this below trainspan run")
    without = {}
    for hooks in found:
        without.update((key, plain(value)) for key, value in hooks.items())
    return {"": without, "watched": {**without, **found[0]}, **{"by the other client": {**without, **hooks} for hooks in found[1:]}}


TIMES = memoryview(bytearray(16)).cast("q")


def passes(fn):
    def call(*args, **kwargs):
        return fn(*args, **kwargs)

    return call


def stores(fn):
    clock = time.monotonic_ns

    def call(*args, **kwargs):
        TIMES[0] = clock()
        try:
            return fn(*args, **kwargs)
        finally:
            TIMES[1] = clock()

    return call


def floors(found, where):
    """Returns found with two lower bounds: wrappers of the functions that where selects."""
    without = found[""]
    keys = [key for key in without if where(*key)]
    return {**found, **{name: {**without, **{key: wrap(without[key]) for key in keys}} for name, wrap in (("passed on", passes), ("two times", stores))}}


def of_step(owner, name):
    one = "_engine_run_backward" if hasattr(torch.autograd, "_engine_run_backward") else "backward"
    return (owner, name) in ((nn.Module, "__call__"), (OPTIMIZERS.Optimizer, "zero_grad"), (torch.optim.SGD, "step"), (_BaseDataLoaderIter, "__next__"), (torch.autograd, one))


def block(steps, skip=SKIP, count=STEPS, clock=time.process_time_ns):
    """Returns the mean CPU time of a step in microseconds. The mean includes work that hooks do
    only in a few steps."""
    for _ in range(skip):
        next(steps)
    start = clock()
    for _ in range(count):
        next(steps)
    return (clock() - start) / count / 1e3


def wanted(name):
    rows = [a for a in sys.argv[1:] if not os.path.isdir(a)]
    return not rows or name in rows


def compare(name, steps, found, calls=1, pairs=PAIRS, size=(SKIP, STEPS)):
    """Compares steps with each client with those without. steps is a list if each client
    needs separate steps."""
    if not wanted(name.split()[0].rstrip(",")):
        return
    names, hooks = list(found), list(found.values())
    steps = steps if isinstance(steps, list) else [steps] * len(found)
    times = [[] for _ in found]
    order = list(range(len(found)))
    for i in range(-3, pairs):
        for on in order[:: 1 if i % 2 else -1]:
            put(hooks[on])
            took = block(steps[on], *size) / calls
            if i >= 0:
                times[on].append(took)
    put(found["watched"])  # the initial state
    if dist.is_initialized() and dist.get_rank():
        return
    rng = random.Random(1)
    for on in order[1:]:
        ratios = [a / b for a, b in zip(times[on], times[0])]
        medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(2000))
        apart = [a - b for a, b in zip(times[on], times[0])]
        apart = [statistics.median(apart)] + [f(statistics.median(rng.choices(apart, k=len(apart))) for _ in range(500)) for f in (min, max)]
        print(
            "%-18s %8.1f us, %s %+.2f %% (95 %%: %+.2f to %+.2f), %+.1f us (%+.1f to %+.1f)"
            % (name, statistics.median(times[0]), names[on], 100 * (statistics.median(ratios) - 1), 100 * (medians[50] - 1), 100 * (medians[1949] - 1), *apart),
            flush=True,
        )


def profile(name, steps, count=2000):
    """Prints the client's time in a step by function."""
    for _ in range(100):
        next(steps)
    watch = cProfile.Profile(time.thread_time)
    watch.enable()
    for _ in range(count):
        next(steps)
    watch.disable()
    rows = []
    for (path, line, function), (calls, _, own, _, _) in pstats.Stats(watch).stats.items():
        if "trainspan" in path or function.split()[-1].rstrip(">") in ("time.monotonic_ns", "_thread.get_ident"):
            rows.append((own / count * 1e6, calls / count, "%s:%d %s" % (os.path.basename(path), line, function)))
    for own, calls, function in sorted(rows, reverse=True)[:12]:
        print("%-18s %8.2f us, %.2f calls a step: %s" % (name, own, calls, function))


def looks():
    """Returns hooks that never sample lines, and hooks that do so in 2 of 64 steps."""
    code = sys.modules["trainspan_torch.hooks"]._loop.code

    def again(step):
        code.next = 0
        return type(code).due(code, step)

    return {"": {(code, "due"): lambda step: False}, "watched": {(code, "due"): again}}


CALLS = 50  # collectives per step, for their measurement


def grouped(found, steps):
    """Yields steps in groups that were created with each client's hooks, because groups have
    hooks too."""
    for name, hooks in found.items():
        put(hooks)
        group = dist.new_group()
        if name in ("passed on", "two times") and hasattr(group, "register_pre_hook"):  # only these hooks see collectives without a Python call
            group.register_pre_hook(1, bool)
            group.register_post_hook(1, bool)
            atexit.register(group.unregister_post_hook, 1)  # PyTorch crashes when it frees them itself
            atexit.register(group.unregister_pre_hook, 1)
        yield steps(group)


def collectives(group):
    """Calls all-reduces of one number, in a group of one process."""
    x = torch.zeros(1)
    while True:
        for _ in range(CALLS):
            dist.all_reduce(x, group=group)
        yield


def sharded(group):
    """Trains a model of 64 layers, each sharded by FSDP2."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    model, mesh = nn.Sequential(*[nn.Linear(256, 256) for _ in range(64)]), DeviceMesh.from_group(group, "cpu")
    for layer in [*model, model]:
        fully_shard(layer, mesh=mesh)
    optimizer, x = torch.optim.AdamW(model.parameters()), torch.randn(64, 256)
    while True:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        yield


def rank():
    """Runs one of two ranks that train a sharded model together. Both run the same blocks."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    found = clients()
    compare("sharded", list(grouped(found, sharded)), found, 1, PAIRS // 3, (1, 5, time.thread_time_ns))  # gloo's own threads wait for the other rank


def ranks():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    env = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE="2", LAUNCHED="1", USE_LIBUV="0")
    both = [subprocess.Popen([sys.executable, __file__, "sharded", *filter(os.path.isdir, sys.argv[1:])], env=dict(env, RANK=r, LOCAL_RANK=r)) for r in "01"]
    if any([p.wait() for p in both]):
        sys.exit("a rank failed")


def memory():
    """Prints the KiB in use after 500 steps."""
    steps = trainer(64, 2, 8)
    for _ in range(500):
        next(steps)
    with open("/proc/self/smaps_rollup") as f:
        print(next(int(line.split()[1]) for line in f if line.startswith("Pss:")))


def start():
    """Prints the milliseconds of an empty process, and the additional time with the client on
    its path."""
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
    if os.environ.get("LAUNCHED"):
        return rank()
    found = clients()
    compare("tiny", trainer(4, 1, 4), floors(found, of_step))
    compare("about 1 ms", trainer(180, 3, 8), floors(found, of_step))
    compare("about 20 ms", trainer(540, 3, 16), found)
    compare("lines, tiny", trainer(4, 1, 4), looks())
    compare("lines, about 1 ms", trainer(180, 3, 8), looks())
    if wanted("profile"):
        profile("a step", trainer(4, 1, 4))
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    both = floors(found, lambda owner, name: owner is dist and name == "all_reduce")
    compare("collective", list(grouped(both, collectives)), both, CALLS)
    if wanted("profile"):
        profile("50 collectives", collectives(None), 200)
    if wanted("sharded") and hasattr(dist, "all_gather_single"):  # FSDP2 on a CPU
        ranks()
    if len(sys.argv) > 1:
        return
    print("start of a process %.1f ms, watched %+.1f ms" % start())
    used = {}
    for on in "01":
        env = dict(os.environ, TRAINSPAN_TORCH=on)
        used[on] = statistics.median(int(subprocess.check_output([sys.executable, __file__, "memory"], env=env)) for _ in range(5))
    print("memory             %.1f MB more in a process that is watched" % ((used["1"] - used["0"]) / 1024))


if __name__ == "__main__":
    main()
