"""Ways to feed a loop: two epochs of four batches, if there are epochs."""

import itertools

import small
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info


class Numbers(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, i):
        if i % 4 == 0:
            small.slow("data")
        return torch.arange(8.0).roll(i), torch.tensor(i % 2)


class Stream(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        start, step = (worker.id, worker.num_workers) if worker else (0, 1)
        return (Numbers()[i] for i in range(start, 16, step))


class Whole(Numbers):
    """Returns all samples of a batch at once."""

    def __getitems__(self, indices):
        return [self[i] for i in indices]


def train(batches, model=None):
    model = model or nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        small.say(loss)
    return model


def epochs(loader):
    train(batch for _ in range(2) for batch in loader)


def plain(data=Numbers, **kwargs):
    epochs(DataLoader(data(), batch_size=4, **kwargs))


def whole():
    plain(Whole)


def iterable():
    plain(Stream)


def iterable_workers():
    plain(Stream, num_workers=2)


def fork():
    plain(num_workers=2, multiprocessing_context="fork")


def spawn():
    plain(num_workers=2, multiprocessing_context="spawn")


def forkserver():
    plain(num_workers=2, multiprocessing_context="forkserver")


def default():
    plain(num_workers=2)


def persistent():
    plain(num_workers=2, multiprocessing_context="fork", persistent_workers=True)


def any_order():
    """Returns batches as they are ready; with one worker that is the usual order."""
    plain(num_workers=1, multiprocessing_context="fork", in_order=False)


def stateful():
    """Uses torchdata's loader, whose position is saved in a checkpoint."""
    from torchdata.stateful_dataloader import StatefulDataLoader

    loader = StatefulDataLoader(Numbers(), batch_size=4)
    train(itertools.islice(loader, 2))
    state = loader.state_dict()
    loader = StatefulDataLoader(Numbers(), batch_size=4)
    loader.load_state_dict(state)
    train(loader)


def several():
    """Loops over one loader, and takes single batches of another one."""
    other = itertools.cycle(DataLoader(Numbers(), batch_size=2))
    train((torch.cat([x, z]), torch.cat([y, w])) for (x, y), (z, w) in zip(DataLoader(Numbers(), batch_size=4), other))


def generator():
    """Uses no DataLoader: batches are cut out of one long text, and now and then
    the loss is estimated on other data."""
    text = torch.arange(512) % 17
    model = nn.Sequential(nn.Embedding(17, 8), nn.Flatten(), nn.Linear(64, 17))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def get_batch():
        small.slow("data")
        at = torch.randint(0, 500, (4,))
        return torch.stack([text[i:i + 8] for i in at]), text[at + 8]

    @torch.no_grad()
    def estimate_loss():
        model.eval()
        total = sum(F.cross_entropy(model(x), y) for x, y in (get_batch() for _ in range(2)))
        model.train()
        return total / 2

    x, y = get_batch()
    for step in range(6):
        if step % 3 == 0:
            small.say(estimate_loss())
        loss = F.cross_entropy(model(x), y)
        x, y = get_batch()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        small.say(loss)


def in_the_middle():
    """Computes the loss on held-out data after every second batch of an epoch."""
    model, held_out = nn.Linear(8, 2), DataLoader(Numbers(), batch_size=8)

    def batches():
        for i, batch in enumerate(DataLoader(Numbers(), batch_size=4)):
            if i == 2:
                model.eval()
                with torch.no_grad():
                    for x, y in held_out:
                        small.say(F.cross_entropy(model(x), y))
                model.train()
            yield batch

    train(batches(), model)


if __name__ == "__main__":
    small.main(globals())
