"""Raises errors in each phase, and prints their tracebacks: files and functions, the error, its
cause and its context. The output with the hooks must equal that without."""

import sys
import traceback

import torch
from torch.utils.data import DataLoader, Dataset

WHERE = ""  # the phase that fails


def fails(where):
    if WHERE == where:
        try:
            {}["missing"]
        except KeyError as e:
            raise ValueError(where) from e


class Data(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, i):
        if i > 8:
            fails("loader")
        return torch.ones(4)


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        fails("backward")
        return gradient * 2


class Inner(torch.nn.Linear):
    def forward(self, x):
        fails("forward")
        return Double.apply(super().forward(x))


class Optimizer(torch.optim.SGD):
    def step(self, closure=None):
        fails("optimizer")
        return super().step(closure)

    def zero_grad(self, *args, **kwargs):
        fails("zero_grad")
        return super().zero_grad(*args, **kwargs)


def train(model, optimizer, workers):
    for x in DataLoader(Data(), batch_size=2, num_workers=workers):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()


def show(work):
    try:
        work()
    except Exception as e:
        frames = [(f.filename.rpartition("/")[2], f.name) for f in traceback.extract_tb(e.__traceback__)]
        if sys.version_info < (3, 11):
            frames = [f for f in frames if f[0] not in ("hooks.py", "loaders.py")]
        text = e.args[0] if e.args and isinstance(e.args[0], str) else ""
        print(type(e).__name__, repr(e.__cause__), repr(e.__context__), e.__suppress_context__, frames, "trainspan" in text)
    else:
        print("nothing was raised")


torch.manual_seed(1)
model = torch.nn.Sequential(Inner(4, 4), torch.nn.Linear(4, 4))
optimizer = Optimizer(model.parameters(), lr=0.1)
train(model, optimizer, 0)
for quick in (True, False):  # on the fast path, and in the first step of a model
    for WHERE in ("loader", "forward", "backward", "optimizer", "zero_grad"):
        print(WHERE)
        show(lambda: train(model, optimizer, 0))
    model = torch.nn.Sequential(Inner(4, 4), torch.nn.Linear(4, 4))
WHERE = "loader"
show(lambda: train(model, optimizer, 1))
WHERE = ""
train(model, optimizer, 0)
show(lambda: model(torch.ones(3)))
show(lambda: model())
show(lambda: torch.ones(2).backward())
show(lambda: torch.optim.SGD([], lr=0.1))
show(lambda: torch.load("there is no such file"))
show(lambda: torch.save({}, "/no/such/folder/model.pt"))
show(lambda: model.load_state_dict({"x": 1}))
show(lambda: torch.autograd.grad(torch.ones(1), torch.ones(1)))
