"""Imports PyTorch in a thread, and trains there or in the main thread."""

import sys
import threading


def load():
    global torch
    import torch


def train():
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.utils.data.DataLoader(list(torch.zeros(12, 2)), batch_size=2):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()


def both():
    load()
    train()


thread = threading.Thread(target=both if sys.argv[1] == "there" else load)
thread.start()
thread.join()
if sys.argv[1] == "here":
    train()
