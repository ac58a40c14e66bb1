"""Two ranks; rank 1 fails after some steps: fails.py raise|kill|exit, or under torchrun."""

import os
import signal
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


def train(rank, how):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2")
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(20):
        optimizer.zero_grad()
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()
        if rank == 1 and step == 10:
            if how == "raise":
                raise ValueError("the token hf_hunter2hunter2 is wrong\nand this is the second line")
            if how == "exit":
                os._exit(7)
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    if "RANK" in os.environ:
        train(int(os.environ["RANK"]), sys.argv[1])
    else:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        mp.spawn(train, (sys.argv[1],), nprocs=2)
