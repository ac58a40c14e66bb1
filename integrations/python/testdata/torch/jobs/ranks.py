"""Two ranks for every kind of parallel training: four updates each."""

import contextlib
import os
import sys

import small

small.launched(4 if sys.argv[1] == "mesh" else 2)

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

STEPS = 4
RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(8, 64), nn.BatchNorm1d(64), nn.Linear(64, 2)

    def forward(self, x):
        small.slow("forward")
        return self.down(torch.relu(self.norm(self.up(x))))


def net(cls=Net):
    torch.manual_seed(3)  # the same on each rank
    return cls()


def batch():
    torch.manual_seed(100 + RANK)
    while True:
        yield torch.randn(8, 8), torch.randint(0, 2, (8,))


def train(model, parameters=None):
    optimizer = torch.optim.SGD(parameters or model.parameters(), lr=0.1)
    for (x, y), _ in zip(batch(), range(STEPS)):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        small.say(loss)


def ddp(cls=Net, **kwargs):
    inner = net(cls)
    inner.up.weight.register_hook(lambda _: small.slow("backward"))
    return DistributedDataParallel(inner, **kwargs)


class Bare(nn.Module):
    """A model without buffers, which would be broadcast."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 64), nn.Linear(64, 2)

    def forward(self, x):
        small.slow("forward")
        return self.down(torch.relu(self.up(x)))


def plain():
    train(ddp())


def buckets():
    """Reduces gradients in many small buckets."""
    train(ddp(Bare, bucket_cap_mb=0.0005))


def static_graph():
    train(ddp(Bare, static_graph=True))


def comm_hook():
    """Reduces gradients with a hook of the program."""

    def halves(state, bucket):
        work = dist.all_reduce(bucket.buffer().div_(RANKS), async_op=True)
        return work.get_future().then(lambda f: f.value()[0])

    model = ddp(Bare)
    model.register_comm_hook(None, halves)
    train(model)


def no_sync():
    """Accumulates the gradients of two batches before they are reduced."""
    model = ddp(Bare)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (x, y) in zip(range(2 * STEPS), batch()):
        with contextlib.nullcontext() if step % 2 else model.no_sync():
            loss = F.cross_entropy(model(x), y)
            loss.backward()
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()
            small.say(loss)


def by_hand():
    """The program reduces its gradients itself."""
    model = net(Bare)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x, y), _ in zip(batch(), range(STEPS)):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        flat = torch.cat([p.grad.flatten() for p in model.parameters()])
        small.slow("late")
        dist.all_reduce(flat)
        at = 0
        for p in model.parameters():
            p.grad.copy_(flat[at:at + p.numel()].view_as(p) / RANKS)
            at += p.numel()
        optimizer.step()
        small.say(loss)


def fsdp1():
    from torch.distributed.fsdp import FullyShardedDataParallel

    train(FullyShardedDataParallel(net(Bare), device_id=torch.device("cpu")))


def fsdp2():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model, mesh = net(Bare), init_device_mesh("cpu", (RANKS,))
    for layer in (model.up, model.down):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    train(model)


def tensor_parallel():
    """Splits one layer by columns and one by rows: one sum in forward, one in backward."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (RANKS,))
    model = parallelize_module(net(Bare), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    torch.manual_seed(100)  # all ranks have the same data
    for _ in range(STEPS):
        x, y = torch.randn(8, 8), torch.randint(0, 2, (8,))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        small.say(loss)


def pipeline():
    """Uses two stages and four micro-batches."""
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    whole = net(Bare)
    part = whole.up if RANK == 0 else nn.Sequential(nn.ReLU(), whole.down)
    stage = PipelineStage(part, RANK, RANKS, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, 4, loss_fn=F.cross_entropy)
    optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
    torch.manual_seed(100)
    for _ in range(STEPS):
        x, y = torch.randn(8, 8), torch.randint(0, 2, (8,))
        optimizer.zero_grad()
        if RANK == 0:
            schedule.step(x)
        else:
            losses = []
            schedule.step(target=y, losses=losses)
            small.say(sum(losses))
        optimizer.step()
    small.say(sum(p.sum() for p in part.parameters()))


def functional():
    """Calls collectives that return a new tensor."""
    import torch.distributed._functional_collectives as funcol

    model = net(Bare)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x, y), _ in zip(batch(), range(STEPS)):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        for p in model.parameters():
            p.grad = funcol.all_reduce(p.grad, "avg" if False else "sum", dist.group.WORLD) / RANKS
        optimizer.step()
        small.say(loss)


def mesh():
    """Arranges four ranks in two rows, and sums along each dimension."""
    from torch.distributed.device_mesh import init_device_mesh

    grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    model = net(Bare)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x, y), _ in zip(batch(), range(STEPS)):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad, group=grid.get_group("data"))
        total = loss.detach().clone()
        dist.all_reduce(total, group=grid.get_group("model"))
        optimizer.step()
        small.say(total)


def objects():
    """Sends pickled objects."""
    model = net(Bare)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x, y), _ in zip(batch(), range(STEPS)):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        seen = [None] * RANKS
        dist.all_gather_object(seen, {"loss": loss.item()})
        rate = [0.1]
        dist.broadcast_object_list(rate, 0)
        small.say(sum(s["loss"] for s in seen) * rate[0])


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] != "none":
        dist.init_process_group("gloo")
    globals()[sys.argv[1]]()
    dist.barrier()
    dist.destroy_process_group()
