"""Trains below PyTorch's profiler: the folder for profiles, and how."""

import os
import sys

import torch
import torch.nn as nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch.utils.data import DataLoader, TensorDataset

folder, how = sys.argv[1:3]
torch.manual_seed(1)
torch.set_num_threads(1)
rank = int(os.environ.get("RANK", "0"))
if how == "ranks":
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method="file://" + folder + ".store", rank=rank, world_size=2)
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
if how == "ranks":
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(4 if how == "plain" else 8, 4)), batch_size=2)
options = {"shapes": {"record_shapes": True, "profile_memory": True}, "stacks": {"with_stack": True}}.get(how, {})
steps = None if how == "plain" else schedule(wait=1, warmup=1, active=2)
with profile(activities=[ProfilerActivity.CPU], schedule=steps, **options) as p:
    for (x,) in loader:
        optimizer.zero_grad()
        with record_function("## forward ##"):
            loss = model(x).sum()
        loss.backward()
        optimizer.step()
        if how == "ranks":
            dist.all_reduce(torch.ones(2))
        p.step() if steps else None
os.makedirs(folder, exist_ok=True)
p.export_chrome_trace(os.path.join(folder, "rank%d.pt.trace.json" % rank))
if how == "ranks":
    dist.destroy_process_group()
