"""A program that records phases itself with DFTracer's API."""

import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

from trainspan.dftracer import ai

data = TensorDataset(torch.randn(32, 8))


class Net(torch.nn.Linear):
    @ai.compute.forward
    def forward(self, x):
        return super().forward(x)


net, plain = Net(8, 8), torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in ai.pipeline.epoch.iter(range(2)):
    for (x,) in ai.dataloader.fetch.iter(DataLoader(data, batch_size=4)):
        optimizer.zero_grad()
        loss = net(x).sum()
        with ai.compute.forward:
            loss = loss + plain(x).sum()
        with ai.compute.backward:
            loss.backward()
        with ai.compute.step:
            optimizer.step()
sys.stdout.write("fine")
