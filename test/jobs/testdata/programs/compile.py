"""Compiles a model that is compiled again for another size. TORCH_TRACE is the folder for the logs."""

import torch
import torch.nn as nn

torch.manual_seed(1)
torch.set_num_threads(1)
net = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), backend="aot_eager")
for size in (2, 3):
    net(torch.randn(size, 4)).sum().backward()
