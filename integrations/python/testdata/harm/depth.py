"""Prints how deeply modules may be nested."""

import sys

import torch

net = torch.nn.Identity()
depth = 0
try:
    while depth < 2000:
        net(torch.zeros(1))
        net = torch.nn.Sequential(net)
        depth += 1
except RecursionError:
    pass
sys.stdout.write(str(depth))
