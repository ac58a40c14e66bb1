"""Ways to compile. The functions print the number of graphs, graph breaks and compilations,
which must be the same with the client and without."""

import small
import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = 6
BACKEND = "aot_eager"  # it needs no C++ compiler


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
    """Compiles with the default backend."""
    model = Net()
    train(model, torch.compile(model))


def in_place():
    model = Net()
    model.compile(backend=BACKEND)
    train(model, model)


def parts():
    """Compiles only a layer."""
    model = Net()
    model.up.compile(backend=BACKEND)
    train(model, model)


def function():
    """Compiles a function that calls the model and its loss."""
    model = Net()
    train(model, torch.compile(lambda x: model(x) * 2, backend=BACKEND))


def optimizer():
    model = Net()
    train(model, model, lambda optimizer: torch.compile(optimizer.step, backend=BACKEND))


def compiled_autograd():
    """Compiles backward too. Dynamo then also visits the compiler's own frames, which vary."""
    model = Net()
    torch._dynamo.config.compiled_autograd = True
    train(model, torch.compile(model, backend=BACKEND), backward=torch.compile(lambda loss: loss.backward(), backend=BACKEND), frames=False)


def shapes():
    """Changes sizes: the graph is compiled again, once with a dynamic size."""
    model = Net()
    train(model, torch.compile(model, backend=BACKEND), sizes=(8, 6, 4))


def breaks():
    model = Net(breaks=True)
    train(model, torch.compile(model, backend=BACKEND))


if __name__ == "__main__":
    small.main(globals())
