"""Two ranks that use each collective, process groups, checkpoints and spawned
workers."""

import os
import sys
import tempfile
import threading

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return torch.full((4,), float(i))


def rank(n, port, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=n, world_size=2)
    one, two = torch.ones(256), [torch.zeros(256), torch.zeros(256)]
    dist.all_reduce(one)
    dist.all_gather(two, one)
    dist.broadcast(one, 0)
    dist.reduce(one, 0)
    dist.gather(one, two if n == 0 else None, 0)
    dist.scatter(one, two if n == 0 else None, 0)
    dist.barrier()
    objects = [None, None]
    dist.all_gather_object(objects, {"rank": n})
    assert objects == [{"rank": 0}, {"rank": 1}]
    dist.broadcast_object_list(objects, 0)
    if n == 0:
        dist.send(one, 1)
        dist.isend(one, 1).wait()
    else:
        dist.recv(one, 0)
        dist.irecv(one, 0).wait()
    work = dist.all_reduce(one, async_op=True)
    work.wait()
    pair = dist.new_group([0])
    if n == 0:
        dist.all_reduce(one, group=pair)

    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader(Numbers(), batch_size=4, num_workers=1, multiprocessing_context="spawn"):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    path = os.path.join(folder, "rank%d.pt" % n)
    torch.save(model.state_dict(), path)
    model.load_state_dict(torch.load(path))
    torch.save(one, path + ".data")
    assert torch.equal(torch.load(path + ".data"), one)
    with open(path, "wb") as f:
        torch.save({"model": model.state_dict()}, f)
    beside = threading.Thread(target=torch.save, args=({}, path))
    beside.start()
    beside.join()
    dist.destroy_process_group()


if __name__ == "__main__":
    
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs"))
    from small import free_port

    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(rank, (port, folder), 2)
    sys.stdout.write("fine")
