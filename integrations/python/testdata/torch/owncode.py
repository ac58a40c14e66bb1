"""A training whose own code takes long after each step, and that has a span of its own and a
checkpoint between others."""

import os
import sys
import tempfile
import time

import torch
import trainspan as ts
from torch.utils.data import DataLoader, Dataset, Subset


class Numbers(Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, i):  # the data set
        return torch.arange(64.0).roll(i)


def main(steps, folder):
    torch.set_num_threads(1)
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x in DataLoader(Subset(Numbers(), range(4 * steps)), batch_size=4):  # next batch
        optimizer.zero_grad()
        with ts.span("mine"):
            time.sleep(0.004)
        loss = model(x).sum()
        torch.save(list(range(200000)), os.path.join(folder, "x"))
        loss.backward()
        optimizer.step()  # the step
        time.sleep(0.004)


with tempfile.TemporaryDirectory() as folder:
    main(int(sys.argv[1]), folder)
