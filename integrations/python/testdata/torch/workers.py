"""Trains with a worker of the DataLoader that multiprocessing starts by the method argv[1]. The worker
imports this file again, and so calls the model below."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

nn.Linear(4, 4)(torch.zeros(1, 4))


class Data(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.ones(8), torch.zeros(1)


def main():
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for x, y in DataLoader(Data(), 4, num_workers=1, multiprocessing_context=sys.argv[1]):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
