"""Typical loops, each in a separate process. It prints the name and the process id
of each. Each batch has 8 of 32 samples."""

import itertools
import multiprocessing
import queue
import sys
import tempfile
import threading

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(32, 8), torch.randint(0, 2, (32,)))


def network():
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))


def random_batch():
    return torch.randn(8, 8), torch.randint(0, 2, (8,))


model, criterion = network(), nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader, held_out = DataLoader(data, batch_size=8), DataLoader(data, batch_size=16)


def train(x, y):
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()


def plain():
    for _ in range(2):
        model.train()
        for x, y in loader:
            train(x, y)
        model.eval()
        with torch.no_grad():
            for x, y in held_out:
                criterion(model(x), y)


def stop_early():
    for _ in range(2):
        for i, (x, y) in enumerate(loader):
            if i == 2:
                break
            train(x, y)


def batch_ahead():
    batches = iter(loader)
    current = next(batches)
    while current is not None:
        ahead = next(batches, None)
        train(*current)
        current = ahead


def no_loader():
    for i in range(5):
        train(*random_batch())
        if i == 2:
            model.eval()
            with torch.no_grad():
                x, y = random_batch()
                criterion(model(x), y)
            model.train()


def two_optimizers():
    judge = network()
    of_judge = torch.optim.SGD(judge.parameters(), lr=0.1)
    for _ in range(4):
        of_judge.zero_grad()
        judge(model(torch.randn(4, 8)).detach().repeat(1, 4)).sum().backward()
        of_judge.step()
        optimizer.zero_grad()
        judge(model(torch.randn(4, 8)).repeat(1, 4)).sum().backward()
        optimizer.step()


def accumulate():
    for i, (x, y) in enumerate(loader):
        criterion(model(x), y).backward()
        if i % 2:
            optimizer.step()
            optimizer.zero_grad()


def one_batch():
    x, y = next(iter(loader))
    for _ in range(6):
        train(x, y)


def evaluate_with_gradients():
    for _ in range(2):
        model.eval()
        for x, y in held_out:
            criterion(model(x), y)
        model.train()
        for x, y in loader:
            train(x, y)
    model.eval()
    for x, y in held_out:
        criterion(model(x), y)


def teacher():
    wise = network().eval()
    for x, _ in loader:
        with torch.no_grad():
            goal = wise(x)
        optimizer.zero_grad()
        F.mse_loss(model(x), goal).backward()
        optimizer.step()


def target():
    """Asks another network for its goal after its own forward, without a loader."""
    other = network()
    for _ in range(5):
        optimizer.zero_grad()
        y = model(random_batch()[0])
        with torch.no_grad():
            goal = other(random_batch()[0])
        F.mse_loss(y, goal).backward()
        optimizer.step()


def reference():
    """The same with a loader whose batches come one ahead, as with accelerate. The last one of
    each pass comes before the pass ends, and is used after it."""
    other = network().eval()
    for _ in range(2):
        batches = iter(loader)
        current = next(batches)
        while current is not None:
            ahead = next(batches, None)
            y = model(current[0])
            with torch.no_grad():
                goal = other(current[0])
            optimizer.zero_grad()
            F.mse_loss(y, goal).backward()
            optimizer.step()
            current = ahead


class Files(torch.utils.data.Dataset):
    """Samples that are dicts in files."""

    def __init__(self, folder):
        self.paths = ["%s/%d.pt" % (folder, i) for i in range(48)]
        for i, path in enumerate(self.paths):
            torch.save({"x": data[i % 32][0], "y": data[i % 32][1]}, path)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        return torch.load(self.paths[i])


def files():
    with tempfile.TemporaryDirectory() as folder:
        for batch in DataLoader(Files(folder), batch_size=4):
            train(batch["x"], batch["y"])


def load_beside():
    """Loads a file on another thread in the middle of each batch of an evaluation."""
    with tempfile.TemporaryDirectory() as folder:
        torch.save({"x": 1}, folder + "/x.pt")
        for x, y in loader:
            train(x, y)
        model.eval()
        with torch.no_grad():
            for x, y in held_out:
                y = model(x)
                there(torch.load, folder + "/x.pt")
                model(x)


def attacked():
    """Trains adversarially: makes each batch harder with gradients in evaluation mode."""
    for x, y in loader:
        model.eval()
        for _ in range(4):
            x = x.detach().requires_grad_()
            x = x + torch.autograd.grad(F.cross_entropy(model(x), y), x)[0]
        model.train()
        train(x.detach(), y)


def eval_mode_parts():
    """Trains a model that is in evaluation mode, with three parts of each batch."""
    model.eval()
    for x, y in loader:
        optimizer.zero_grad()
        for part, want in zip(x.split(3), y.split(3)):
            F.cross_entropy(model(part), want).backward()
        optimizer.step()


def eval_mode():
    """Trains a model that is in evaluation mode, without a loader."""
    model.eval()
    for _ in range(5):
        train(*random_batch())


def eval_mode_ahead():
    """The same with batches that come one ahead."""
    model.eval()
    for _ in range(2):
        batches = iter(loader)
        current = next(batches)
        while current is not None:
            ahead = next(batches, None)
            optimizer.zero_grad()
            F.cross_entropy(model(current[0]), current[1]).backward()
            optimizer.step()
            current = ahead


def judged():
    """Evaluates with another model and with gradients, without a loader."""
    judge = network().eval()
    for i in range(10):
        train(*random_batch())
        if i % 3 == 0:
            for _ in range(2):
                judge(random_batch()[0])


def closure():
    for x, y in loader:

        def loss():
            optimizer.zero_grad()
            value = criterion(model(x), y)
            value.backward()
            return value

        optimizer.step(loss)


def endless():
    def batches():
        while True:
            yield from loader

    more = batches()
    for _ in range(6):
        train(*next(more))


def cycled():
    """Trains on batches that itertools.cycle has kept, for most of its steps."""
    batches = itertools.cycle(loader)
    for i in range(14):
        train(*next(batches))
        if i % 5 == 4:
            model.eval()
            with torch.no_grad():
                for x, y in held_out:
                    criterion(model(x), y)
            model.train()


def cycles():
    """Trains on batches of two loaders in any order, which itertools.cycle repeats."""
    batches = {"a": itertools.cycle(loader), "b": itertools.cycle(held_out)}
    for name in "aaaaababab" + "aab":
        train(*next(batches[name]))


def several_steps():
    """Makes two steps with each batch, and after a step without a batch too."""
    for x, y in loader:
        train(x, y)
        train(x, y)
    train(*random_batch())
    for x, y in loader:
        train(x, y)
        train(x, y)


def loader_first():
    """Trains with a loader, then without, and with a loader again."""
    for x, y in loader:
        train(x, y)
    for _ in range(5):
        train(*random_batch())
    for x, y in loader:
        train(x, y)


def evaluate_in_training_mode():
    """Evaluates without eval() and without no_grad: within an epoch, and after it."""
    for _ in range(2):
        for i, (x, y) in enumerate(loader):
            train(x, y)
            if i == 1:
                for x, y in held_out:
                    criterion(model(x), y)
        for x, y in held_out:
            criterion(model(x), y)


def skip():
    """Does not train on some batches."""
    for epoch in range(2):
        for i, (x, y) in enumerate(loader):
            loss = criterion(model(x), y)
            if i == 2:
                continue
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def scalars():
    """Trains on batches without a dimension."""
    for i in DataLoader(torch.arange(40), batch_size=None):
        train(*data[i % 32])


def late_step():
    """Accumulates gradients. The last step is after the last batch."""
    for i, (x, y) in enumerate(loader):
        criterion(model(x), y).backward()
        if i % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()
    optimizer.step()
    optimizer.zero_grad()


def acts():
    """Collects data with the model, as reinforcement learning does, and trains on it."""
    for _ in range(2):
        with torch.no_grad():
            x = torch.cat([model(torch.randn(4, 8)).repeat(1, 4) for _ in range(3)])
        for y in torch.randint(0, 2, (3, 12)):
            train(x, y)


def own_spans():
    from trainspan.dftracer.python import dft_fn

    for _ in range(2):
        for x, y in loader:
            with dft_fn("app", "mine"):
                train(x, y)


def two_loaders():
    for (x, _), (z, y) in zip(loader, DataLoader(data, batch_size=8)):
        train(x + z, y)


def inference():
    model.eval()
    with torch.inference_mode():
        for x, _ in loader:
            model(x)


def failing():
    def fails():
        raise ValueError

    for i in range(6):
        optimizer.zero_grad()
        x, y = random_batch()
        criterion(model(x), y).backward()
        try:
            optimizer.step(fails if i == 2 else None)
        except ValueError:
            pass


def tried():
    """Trains in a forked process whose parent has run the model before."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()


def no_peers():
    """Trains alone when the ranks cannot find each other."""
    try:
        torch.distributed.init_process_group("gloo", init_method="unknown://")
    except RuntimeError:
        for x, y in loader:
            train(x, y)


class Batch:
    """A batch whose size is not its number of samples."""

    def __init__(self, rows):
        self.x, self.y = torch.utils.data.default_collate(rows)

    def size(self, of):
        sys.exit("size of a batch was called with %r" % of)


def there(f, *args):
    thread = threading.Thread(target=f, args=args)
    thread.start()
    thread.join()


def step_in_backward():
    """Makes its steps in backward, on another thread, as with a GPU."""

    def update(gradient):
        there(optimizer.step)
        there(optimizer.zero_grad)

    model[0].weight.register_hook(update)
    for _ in range(20):
        x, y = random_batch()
        criterion(model(x), y).backward()


def steps_in_backward():
    """Makes a step for each parameter in backward, with an optimizer for each, on the same thread."""
    parameters = list(model.parameters())
    optimizers = [optimizer] + [torch.optim.SGD([p], lr=0.1) for p in parameters[1:]]

    def update(of):
        def step(gradient):
            of.step()
            of.zero_grad()

        return step

    for p, of in zip(parameters, optimizers):
        p.register_hook(update(of))
    for _ in range(20):
        x, y = random_batch()
        criterion(model(x), y).backward()


def prefetched():
    """Trains on the batches that another thread takes from the loader, when it waits for the
    training."""
    batches, waits = queue.Queue(1), threading.Event()

    def fetch():
        for i, batch in enumerate(loader):
            if i == 2:
                waits.set()
            batches.put(batch)
        batches.put(None)

    for _ in range(2):
        thread = threading.Thread(target=fetch)
        thread.start()
        for x, y in iter(batches.get, None):
            waits.wait()
            train(x, y)
        thread.join()


def persistent_early():
    """Leaves each pass over a loader early that keeps its workers, and so its iterator."""
    kept = DataLoader(data, batch_size=4, num_workers=1, persistent_workers=True, multiprocessing_context="fork")
    for _ in range(3):
        for i, (x, y) in enumerate(kept):
            train(x, y)
            if i == 1:
                break


def evaluate_between():
    """Evaluates without a loader between two batches."""
    for i, (x, y) in enumerate(DataLoader(many, batch_size=8)):
        train(x, y)
        if i % 8 == 5:
            model.eval()
            with torch.no_grad():
                for x in many.tensors[0].split(64):
                    model(x)
            model.train()


def two_threads():
    """Trains a model on each of two threads."""
    other = network()
    of_other = torch.optim.SGD(other.parameters(), lr=0.1)

    def steps():
        for _ in range(3):
            of_other.zero_grad()
            criterion(other(random_batch()[0]), random_batch()[1]).backward()
            of_other.step()

    for _ in range(12):
        train(*random_batch())
        there(steps)


class Rows(torch.Tensor):
    """A batch that is a tensor with functions of the program."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function is torch.Tensor.size:
            sys.exit("size of a tensor of the program was called with %r" % args[1:])
        return super().__torch_function__(function, types, args, kwargs or {})


def own_tensors():
    for x in DataLoader(data, batch_size=8, collate_fn=lambda rows: torch.stack([x for x, _ in rows]).as_subclass(Rows)):
        train(x.as_subclass(torch.Tensor), random_batch()[1])


def long():
    many = TensorDataset(torch.randn(318, 8), torch.randint(0, 2, (318,)))
    for epoch in range(3):
        for i, batch in enumerate(DataLoader(many, batch_size=8, collate_fn=Batch if epoch == 2 else None)):
            if i == 30:
                continue
            train(*((batch.x, batch.y) if epoch == 2 else batch))
            if i == 20:
                model.eval()
                with torch.no_grad():
                    for x, y in held_out:
                        criterion(model(x), y)
                model.train()


many = TensorDataset(torch.randn(128, 8), torch.randint(0, 2, (128,)))


def same_iterator():
    """Evaluates with the next batches of the training's iterator."""
    batches = iter(DataLoader(many, batch_size=8))
    for _ in range(2):
        model.train()
        for _ in range(6):
            train(*next(batches))
        model.eval()
        with torch.no_grad():
            for _ in range(2):
                x, y = next(batches)
                criterion(model(x), y)


def same_loop():
    """Does the same in one loop: it requests the first batch of an evaluation in training mode,
    and the batch after the evaluation in evaluation mode."""
    for i, (x, y) in enumerate(DataLoader(many, batch_size=8)):
        if i % 8 < 6:
            model.train()
            train(x, y)
        else:
            model.eval()
            with torch.no_grad():
                criterion(model(x), y)


def chunks():
    """Evaluates without a loader, after an epoch that it has left."""
    for i, (x, y) in enumerate(DataLoader(many, batch_size=8)):
        train(x, y)
        if i == 10:
            break
    model.eval()
    with torch.no_grad():
        for x in many.tensors[0].split(16):
            model(x)


def statistics():
    total = 0
    for x, _ in loader:
        total += x.sum()
    train(*random_batch())
    train(*random_batch())


if __name__ == "__main__":
    for name in sys.argv[1:]:
        if name == "tried":
            model(random_batch()[0])
        process = multiprocessing.get_context("fork").Process(target=globals()[name])
        process.start()
        process.join()
        print(name, process.pid, process.exitcode)
