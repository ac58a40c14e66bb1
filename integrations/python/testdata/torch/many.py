"""Calls collectives of more sizes than get separate names, and others on a second thread."""

import os
import tempfile
import threading

import torch
import torch.distributed as dist

folder = tempfile.TemporaryDirectory()
dist.init_process_group("gloo", init_method="file://" + os.path.join(folder.name, "store"), rank=0, world_size=1)
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
beside = dist.new_group([0])


def save():
    for _ in range(3):
        dist.all_reduce(torch.zeros(4), group=beside)


thread = threading.Thread(target=save)
thread.start()
thread.join()
for size in range(1, 301):
    dist.all_reduce(torch.zeros(size))
print("fine", end="")
