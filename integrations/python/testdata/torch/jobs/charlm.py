"""A small character-level language model, written like a user's program: it does not use
trainspan. A launcher sets its ranks.

    charlm.py [--sharded] [--updates N] [--out FOLDER]

Rank $SLOW_RANK has a slow disk, for the report to find.
"""

import argparse
import dataclasses
import math
import os
import random
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, DistributedSampler


@dataclasses.dataclass
class Config:
    context: int = 32
    heads: int = 2
    width: int = 32
    depth: int = 2
    letters: int = 64
    batch: int = 8
    rate: float = 3e-3
    clip: float = 1.0


class Corpus(Dataset):
    """Windows of a long generated text."""

    def __init__(self, cfg, size, seed, slow=False):
        words = ["".join(random.Random(i).choices("etaoinshrdlu", k=2 + i % 7)) for i in range(200)]
        text = " ".join(random.Random(seed).choices(words, k=size // 4))
        self.codes = np.frombuffer(text.encode()[:size], dtype=np.uint8) % cfg.letters
        self.context, self.slow = cfg.context, slow

    def __len__(self):
        return (len(self.codes) - 1) // self.context

    def __getitem__(self, i):
        if self.slow:
            time.sleep(0.03)
        window = torch.from_numpy(self.codes[i * self.context : (i + 1) * self.context + 1].astype(np.int64))
        return {"x": window[:-1], "y": window[1:]}


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads = cfg.heads
        self.before, self.between = nn.LayerNorm(cfg.width), nn.LayerNorm(cfg.width)
        self.qkv, self.merge = nn.Linear(cfg.width, 3 * cfg.width), nn.Linear(cfg.width, cfg.width)
        self.mlp = nn.Sequential(nn.Linear(cfg.width, 4 * cfg.width), nn.GELU(), nn.Linear(4 * cfg.width, cfg.width))

    def forward(self, x):
        n, t, w = x.shape
        q, k, v = (z.view(n, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.before(x)).split(w, dim=2))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, w)
        x = x + self.merge(seen)
        return x + self.mlp(self.between(x))


class CharLM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.letters, self.places = nn.Embedding(cfg.letters, cfg.width), nn.Embedding(cfg.context, cfg.width)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.depth))
        self.norm, self.head = nn.LayerNorm(cfg.width), nn.Linear(cfg.width, cfg.letters, bias=False)

    def forward(self, x, y=None):
        h = self.letters(x) + self.places(torch.arange(x.size(1)))
        for block in self.blocks:
            h = block(h)
        logits = self.head(self.norm(h))
        return logits if y is None else F.cross_entropy(logits.flatten(0, 1), y.flatten())


class Trainer:
    def __init__(self, args):
        self.args, self.cfg = args, Config()
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        train = Corpus(self.cfg, 16_000, 1, os.environ.get("SLOW_RANK") == str(self.rank))
        self.sampler = DistributedSampler(train, seed=3)
        self.train_loader = DataLoader(train, self.cfg.batch, sampler=self.sampler, drop_last=True)
        self.test_loader = DataLoader(Corpus(self.cfg, 2_000, 2), self.cfg.batch)
        self.model = self.spread(CharLM(self.cfg))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.cfg.rate, foreach=False)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self.rate)
        self.update = 0

    def spread(self, model):
        if not self.args.sharded:
            return nn.parallel.DistributedDataParallel(model)
        from torch.distributed.fsdp import fully_shard

        for block in model.blocks:
            fully_shard(block)
        return fully_shard(model)

    def rate(self, update):
        warm = min(1.0, (update + 1) / 5)
        return warm * 0.5 * (1 + math.cos(math.pi * update / self.args.updates))

    def fit(self):
        epoch = 0
        while self.update < self.args.updates:
            self.sampler.set_epoch(epoch)
            for batch in self.train_loader:
                loss = self.step(batch)
                if self.update % 10 == 0:
                    self.log(loss)
                if self.update == self.args.updates:
                    break
            self.judge()
            self.save()
            epoch += 1

    def step(self, batch):
        self.model.train()
        loss = self.model(batch["x"], batch["y"])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.clip)
        self.optimizer.step()
        self.schedule.step()
        self.update += 1
        return loss.detach()

    def log(self, loss):
        dist.all_reduce(loss)
        if self.rank == 0:
            print("update %d: loss %.4f" % (self.update, loss / self.ranks), flush=True)

    @torch.no_grad()
    def judge(self):
        self.model.eval()
        losses = [self.model(batch["x"], batch["y"]) for batch in self.test_loader]
        self.log(torch.stack(losses).mean())

    def save(self):
        path = os.path.join(self.args.out, "update%d" % self.update)
        if self.args.sharded:
            import torch.distributed.checkpoint as dcp

            dcp.save({"model": self.model.state_dict()}, checkpoint_id=path)
        elif self.rank == 0:
            torch.save({"model": self.model.module.state_dict(), "optimizer": self.optimizer.state_dict(), "update": self.update}, path + ".pt")
        dist.barrier()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sharded", action="store_true")
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--out", default=os.environ.get("WORK", "."))
    torch.set_num_threads(1)
    torch.manual_seed(11)
    dist.init_process_group("gloo")
    Trainer(parser.parse_args()).fit()
    dist.destroy_process_group()
