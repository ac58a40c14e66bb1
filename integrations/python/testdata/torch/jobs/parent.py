"""Two workers train a model independently. The parent, which started them by the method argv[1], waits and evaluates."""

import sys

import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader


def train(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader(torch.ones(48, 8), 4):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()


def evaluate(model):
    model.eval()
    with torch.no_grad():
        for x in DataLoader(torch.ones(16, 8), 4):
            model(x)


if __name__ == "__main__":
    torch.set_num_threads(1)
    mp.set_start_method(sys.argv[1])
    model = torch.nn.Linear(8, 8)
    model.share_memory()
    workers = [mp.Process(target=train, args=(model,)) for _ in range(2)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    evaluate(model)
    print([w.exitcode for w in workers])
