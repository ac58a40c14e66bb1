"""Two ranks of DistributedDataParallel: accumulated gradients, sums of several
losses, a backward that fails."""

import copy
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel


class Fails(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        return x.clone()

    @staticmethod
    def backward(_, g):
        raise ValueError("fails")


def rank(n, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=n, world_size=2)
    torch.manual_seed(1)
    plain = nn.Linear(4, 2)
    model = DistributedDataParallel(copy.deepcopy(plain))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for step in range(6):
        x = torch.full((3, 4), float(n + step))
        optimizer.zero_grad()
        with model.no_sync():  # no rank waits here
            model(x).sum().backward()
        y = model(x)
        loss = y.sum()
        loss.register_hook(seen.append)  # a hook of the program
        if step % 2:
            torch.autograd.backward(tensors=[loss, y.mean()], retain_graph=True)
        else:
            loss.backward()
        assert len(seen) == step + 1 and loss._backward_hooks is not None and len(loss._backward_hooks) == 1
        optimizer.step()
        assert not plain(x).sum().backward()
    try:
        Fails.apply(plain(x)).sum().backward()
        raise AssertionError
    except ValueError:
        pass
    # These tensors must outlive the model: if the threads of gloo freed them during a wait,
    # torch 1.13 could deadlock.
    both, weight = [torch.zeros(2, 4), torch.zeros(2, 4)], model.module.weight.detach()
    dist.all_gather(both, weight)
    assert torch.equal(*both)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs"))
    from small import free_port

    port = free_port()
    torch.multiprocessing.spawn(rank, (port,), 2)
    sys.stdout.write("fine")
