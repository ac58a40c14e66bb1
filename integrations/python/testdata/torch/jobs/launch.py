"""A program for launchers: four updates, on several ranks if the launcher sets them.

    launch.py             the launcher starts the ranks
    launch.py spawn       torch.multiprocessing starts the ranks
    launch.py before      it forks, and the child loads PyTorch
    launch.py after       it forks after it has loaded PyTorch
"""

import os
import sys

import small


def train(rank=None, port=None):
    import torch
    import torch.distributed as dist
    import torch.nn as nn

    torch.set_num_threads(1)
    if rank is not None:
        os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    for ours, theirs in (("RANK", "OMPI_COMM_WORLD_RANK"), ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")):
        if theirs in os.environ:
            os.environ[ours] = os.environ[theirs]
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group("gloo")
    torch.manual_seed(7)
    model = nn.Linear(8, 2)
    if dist.is_initialized():
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    lines = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 8)).square().mean()
        loss.backward()
        optimizer.step()
        lines.append("%s %s\n" % (os.environ.get("RANK", "0"), loss.item().hex()))
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
    os.write(1, "".join(lines).encode())  # in one write: ranks may share a stream


def forked():
    pid = os.fork()
    if not pid:
        train()
        sys.stdout.flush()
        os._exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main(how):
    if how == "spawn":
        import torch

        torch.multiprocessing.spawn(train, (small.free_port(),), 2)
        return 0
    if how == "before":
        return forked()
    if how == "after":
        import torch

        return forked()
    train()
    return 0


if __name__ == "__main__":
    sys.exit(main("".join(sys.argv[1:])))
