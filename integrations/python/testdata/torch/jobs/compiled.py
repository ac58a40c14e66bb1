"""Ways to compile. The number of graphs, of breaks and of compilations is printed:
it must be the same with the client and without."""

import small
import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = 6
BACKEND = "aot_eager"  # which needs no C++ compiler


class Up(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 16)

    def forward(self, x):
        return torch.relu(self.linear(x))


class Net(nn.Module):
    def __init__(self, breaks=False):
        super().__init__()
        self.up, self.down, self.breaks = Up(), nn.Linear(16, 2), breaks

    def forward(self, x):
        x = self.up(x)
        if self.breaks:
            torch._dynamo.graph_break()
        return self.down(x)


def train(model, compiled, step=None, backward=None, sizes=(8,), frames=True):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = step(optimizer) if step else optimizer.step
    for i in range(STEPS):
        small.slow("data")
        n = sizes[i % len(sizes)]
        optimizer.zero_grad()
        loss = F.cross_entropy(compiled(torch.randn(n, 8)), torch.randint(0, 2, (n,)))
        (backward or torch.Tensor.backward)(loss)
        step()
        small.say(loss)
    from torch._dynamo.utils import counters

    print("graphs", counters["stats"]["unique_graphs"], "calls", counters["stats"]["calls_captured"], "breaks", sum(counters["graph_break"].values()))
    if frames:
        print("frames", dict(counters["frames"]))


def whole():
    model = Net()
    train(model, torch.compile(model, backend=BACKEND))


def inductor():
    """By the backend that is used where none is named."""
    model = Net()
    train(model, torch.compile(model))


def in_place():
    model = Net()
    model.compile(backend=BACKEND)
    train(model, model)


def parts():
    """Only a layer is compiled."""
    model = Net()
    model.up.compile(backend=BACKEND)
    train(model, model)


def function():
    """A function around the model and its loss."""
    model = Net()
    train(model, torch.compile(lambda x: model(x) * 2, backend=BACKEND))


def optimizer():
    model = Net()
    train(model, model, lambda optimizer: torch.compile(optimizer.step, backend=BACKEND))


def compiled_autograd():
    """Dynamo looks at the compiler's own frames too, which are not the same each time."""
    model = Net()
    torch._dynamo.config.compiled_autograd = True
    train(model, torch.compile(model, backend=BACKEND), backward=torch.compile(lambda loss: loss.backward(), backend=BACKEND), frames=False)


def shapes():
    """Sizes change: the graph is compiled anew, once with a size that may vary."""
    model = Net()
    train(model, torch.compile(model, backend=BACKEND), sizes=(8, 6, 4))


def breaks():
    model = Net(breaks=True)
    train(model, torch.compile(model, backend=BACKEND))


small.main(globals())
