"""Trains a small character model on the text of this repository, on the ranks that its
launcher sets. It does not use trainspan's API:

    trainspan run -- python3 launch.py --ranks 2 train.py --epochs 2

SLOW_RANK=1 makes the data set of rank 1 slow, or with --slow-in another phase of that rank, for
the report to find.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

VOCABULARY = 129  # ASCII, and one symbol for all other characters


class Text(Dataset):
    """Pieces of the files below a folder, read on request."""

    def __init__(self, root, length, held_out, slow=0.0):
        self.length, self.slow, self.pieces = length, slow, []
        for folder, folders, files in os.walk(root):
            folders[:] = sorted(f for f in folders if not f.startswith(".") and f != "out")
            for name in sorted(files):
                if name.endswith((".go", ".md", ".py")):
                    path = os.path.join(folder, name)
                    size = os.path.getsize(path) - length - 1
                    self.pieces += [(path, at) for at in range(0, max(size, 0), length)]
        self.pieces = [p for i, p in enumerate(self.pieces) if (i % 10 == 0) == held_out]

    def __len__(self):
        return len(self.pieces)

    def __getitem__(self, i):
        if self.slow:
            time.sleep(self.slow)
        path, at = self.pieces[i]
        with open(path, "rb") as f:
            f.seek(at)
            text = f.read(self.length + 1)
        codes = torch.tensor([min(c, VOCABULARY - 1) for c in text])
        return codes[:-1], codes[1:]


class Model(nn.Module):
    def __init__(self, width, layers, length):
        super().__init__()
        self.characters = nn.Embedding(VOCABULARY, width)
        self.places = nn.Parameter(torch.zeros(length, width))
        block = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, layers)
        self.out = nn.Linear(width, VOCABULARY)
        self.register_buffer("mask", torch.triu(torch.full((length, length), float("-inf")), 1))

    def forward(self, x):
        return self.out(self.blocks(self.characters(x) + self.places, self.mask))


def loss_of(model, x, y):
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


@torch.no_grad()
def evaluate(model, loader, total):
    model.eval()
    total.zero_()
    for x, y in loader:
        total += torch.tensor([loss_of(model, x, y).item(), 1.0])
    dist.all_reduce(total)
    model.train()
    return (total[0] / total[1]).item()


class SlowAdamW(torch.optim.AdamW):
    """Pauses in each step."""

    pause = 0.0

    def step(self, closure=None):
        time.sleep(self.pause)
        return super().step(closure)


class Pause:
    """An object that takes long to save."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __reduce__(self):
        time.sleep(self.seconds)
        return (float, (self.seconds,))


def options():
    p = argparse.ArgumentParser()
    p.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    p.add_argument("--out", default="", help="folder for checkpoints; none are written without")
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--steps", type=int, default=60, help="steps of an epoch")
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--length", type=int, default=64)
    p.add_argument("--width", type=int, default=64)
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--workers", type=int, default=1)
    p.add_argument("--start-method", default="fork", choices=["fork", "spawn", "forkserver"])
    p.add_argument("--slow-ms", type=float, default=4, help="of each sample, or of another phase of each step, on the rank of SLOW_RANK")
    p.add_argument("--slow-in", default="data", choices=["data", "forward", "backward", "optimizer", "save"])
    p.add_argument("--save-all", action="store_true", help="each rank saves, into a file of its own")
    p.add_argument("--keep-buffers", action="store_true", help="buffers are not sent around in each step: ranks meet in backward only")
    p.add_argument("--profile", default="", help="folder for the profiles of PyTorch's own profiler")
    return p.parse_args()


def loader(data, sampler, o):
    method = o.start_method if o.workers else None
    return DataLoader(data, o.batch, sampler=sampler, num_workers=o.workers, multiprocessing_context=method, drop_last=True)


def main():
    o = options()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    slow = o.slow_ms / 1000 if os.environ.get("SLOW_RANK") == str(rank) else 0.0

    text, held_out = Text(o.root, o.length, False, slow if o.slow_in == "data" else 0.0), Text(o.root, o.length, True)
    text.pieces = text.pieces[: o.steps * o.batch * ranks]
    held_out.pieces = held_out.pieces[: 8 * o.batch * ranks]
    sampler = DistributedSampler(text, ranks, rank)
    train, test = loader(text, sampler, o), loader(held_out, DistributedSampler(held_out, ranks, rank), o)

    model = DistributedDataParallel(Model(o.width, o.layers, o.length), broadcast_buffers=not o.keep_buffers)
    adam = torch.optim.AdamW
    if slow and o.slow_in == "forward":
        model.module.register_forward_pre_hook(lambda *_: time.sleep(slow))
    elif slow and o.slow_in == "backward":
        model.module.places.register_hook(lambda _: time.sleep(slow))
    elif slow and o.slow_in == "optimizer":
        adam, SlowAdamW.pause = SlowAdamW, slow
    optimizer = adam(model.parameters(), lr=1e-3)
    # This tensor must outlive the model: if a thread of gloo frees the last tensor of a collective
    # while the model is deleted, torch 1.13 deadlocks.
    total = torch.zeros(2)
    first, checkpoint = 0, os.path.join(o.out, "checkpoint%d.pt" % rank if o.save_all else "checkpoint.pt")
    if o.out and os.path.exists(checkpoint):
        state = torch.load(checkpoint)
        first = state["epoch"] + 1
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    profiler = None
    if o.profile:
        profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        profiler.start()
    for epoch in range(first, o.epochs):
        sampler.set_epoch(epoch)
        for x, y in train:
            optimizer.zero_grad()
            loss = loss_of(model, x, y)
            loss.backward()
            optimizer.step()
            if profiler:
                profiler.step()
        held_out_loss = evaluate(model, test, total)
        if rank == 0:
            print("epoch %d: loss %.3f, held out %.3f" % (epoch, loss.item(), held_out_loss), flush=True)
        if o.out and (rank == 0 or o.save_all):
            os.makedirs(o.out, exist_ok=True)
            state = {"epoch": epoch, "model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
            if slow and o.slow_in == "save":
                state["pause"] = Pause(slow)
            torch.save(state, checkpoint + ".new")
            os.replace(checkpoint + ".new", checkpoint)
        dist.barrier()
    if profiler:
        profiler.stop()
        os.makedirs(o.profile, exist_ok=True)
        profiler.export_chrome_trace(os.path.join(o.profile, "rank%d.pt.trace.json" % rank))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
