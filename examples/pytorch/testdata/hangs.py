"""Two ranks that train until one of them hangs:

    trainspan run -- python3 launch.py --ranks 2 testdata/hangs.py loader

loader     rank 1 waits for its next batch and does not get it
mismatch   rank 1 calls two collectives of different groups in the other order

If PyTorch has a flight recorder for gloo, each rank dumps it after some seconds
into the folder of the run. trainspan run reads the stacks of the threads itself.
"""

import datetime
import inspect
import os
import sys
import threading
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

STOPS = 40  # the step in which rank 1 hangs
last = [time.time(), 0]  # the time of the last end of a step, and its number


class Numbers(Dataset):
    def __init__(self, stops):
        self.stops = stops

    def __len__(self):
        return 100000

    def __getitem__(self, i):
        time.sleep(0.001)
        if self.stops and i >= STOPS * 4:
            self.never()
        return torch.full((16,), float(i % 7)), torch.zeros(1)

    def never(self):
        threading.Event().wait()


def dump(rank, folder):
    """Dumps the flight recorder, as a watchdog would, if no step has ended for some seconds."""
    while time.time() - last[0] < 5 or last[1] + 1 < STOPS:
        time.sleep(0.5)
    recorder = getattr(torch._C._distributed_c10d, "_dump_fr_trace", None)
    if recorder:
        with open(os.path.join(folder, "comm_lib_trace_rank_%d" % rank), "wb") as f:
            f.write(recorder())


def main(how):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(hours=1))
    rank = dist.get_rank()
    named = "group_desc" in inspect.signature(dist.new_group).parameters  # missing in torch 1.13
    pair = dist.new_group([0, 1], **({"group_desc": "pair"} if named else {}))
    if os.environ.get("TRAINSPAN_DIR"):
        threading.Thread(target=dump, args=(rank, os.environ["TRAINSPAN_DIR"]), daemon=True).start()
    loader = DataLoader(Numbers(how == "loader" and rank == 1), 4)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
        count = torch.ones(1)
        if how == "mismatch" and rank == 1 and step == STOPS:
            dist.all_reduce(count)
            dist.all_reduce(count, group=pair)
        else:
            dist.all_reduce(count, group=pair)
            dist.all_reduce(count)
        optimizer.step()
        last[:] = [time.time(), step]


if __name__ == "__main__":
    main(sys.argv[1])
