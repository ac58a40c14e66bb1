"""A training on two ranks over gloo, with checkpoints and evaluations. Without injected delays
it has no slow part."""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs"))
from small import launched  # noqa: E402

STEPS = int(os.environ.get("STEPS", "60"))


class Numbers(Dataset):
    def __len__(self):
        return 4 * STEPS

    def __getitem__(self, i):
        return torch.arange(64.0).roll(i)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)))
    loss_of = nn.MSELoss()  # a module too
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with tempfile.TemporaryDirectory() as folder:
        for step, x in enumerate(DataLoader(Numbers(), batch_size=4)):
            optimizer.zero_grad()
            loss_of(model(x), x).backward()
            optimizer.step()
            if step % 20 == 19:
                torch.save(model.state_dict(), os.path.join(folder, "%d.pt" % step))
                model.eval()
                with torch.no_grad():
                    for y in DataLoader(Numbers(), batch_size=2 * STEPS):
                        loss_of(model.module(y), y)
                model.train()
                dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    launched(2)
    main()
