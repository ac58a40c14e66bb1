"""Trains under PyTorch's profiler; the argument is the file for the profile.
The profile of this version has times relative to its start, without the time of the start."""

import json
import sys
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(80, 64))
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
    start = time.time_ns()
    for (x,) in DataLoader(data, batch_size=4):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
profiler.export_chrome_trace(sys.argv[1])
with open(sys.argv[1]) as f:
    rows = json.load(f)
if isinstance(rows, list):
    for row in rows:
        row["cat"] = "user_annotation" if "#" in row["name"] else "cpu_op"
        row["pid"] = row["tid"]
    rows = {"schemaVersion": 1, "baseTimeNanoseconds": start, "traceEvents": rows}
    with open(sys.argv[1], "w") as f:
        json.dump(rows, f)
