"""A training on a GPU: loader workers that are forked in each epoch, an evaluation between the
epochs, a gradient scaler, a captured graph, and a forked process. Prints the loss."""

import os
import sys
import warnings

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

if not torch.cuda.is_available():
    sys.stdout.write("no GPU")
    sys.exit()


class Numbers(Dataset):
    def __len__(self):
        return 160

    def __getitem__(self, i):
        return torch.full((64,), i / 160)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cuda", init_scale=128.0)  # no gradient is infinite


def loss_of(x):
    return (model(x).squeeze(1) - x.mean(1)).square().mean()


for epoch in range(2):
    model.train()
    for x in DataLoader(Numbers(), batch_size=8, num_workers=2, pin_memory=True):
        x = x.cuda(non_blocking=True)
        with torch.autocast("cuda", torch.float16):
            loss = loss_of(x)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    model.eval()
    with torch.no_grad():
        for x in DataLoader(Numbers(), batch_size=40, num_workers=1):
            loss_of(x.cuda()).item()

warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of a fork beside threads
child = os.fork()
if child == 0:
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0, "the forked process failed"

x = torch.ones(8, 64, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side), torch.no_grad():
    model(x)
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.no_grad(), torch.cuda.graph(graph):
    y = model(x)
graph.replay()
torch.cuda.synchronize()
sys.stdout.write("%r %r" % (loss.item(), y.sum().item()))
