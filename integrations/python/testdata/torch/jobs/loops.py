"""Typical loops without a DataLoader: six updates each."""

import sys

import small
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

STEPS = 6


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x):
        return x + self.inner(x)


class Net(nn.Module):
    """A model whose blocks keep their activations, or recompute them in backward."""

    def __init__(self, again=None):
        super().__init__()
        self.stem, self.blocks, self.head, self.again = nn.Linear(8, 8), nn.ModuleList([Block(), Block()]), nn.Linear(8, 2), again

    def forward(self, x):
        small.slow("forward")
        x = self.stem(x)
        for block in self.blocks:
            x = block(x) if self.again is None else checkpoint(block, x, **self.again)
        return self.head(x)


def batch(n=8):
    small.slow("data")
    return torch.randn(n, 8), torch.randint(0, 2, (n,))


def net(**kwargs):
    model = Net(**kwargs)
    model.head.weight.register_hook(lambda _: small.slow("backward"))
    return model


class Slow(torch.optim.SGD):
    """An optimizer that the program defines."""

    def step(self, closure=None):
        small.slow("step")
        return super().step(closure)


def plain(again=None):
    model = net(again=again)
    optimizer = Slow(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        x, y = batch()
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        small.say(loss)


def reentrant():
    plain({"use_reentrant": True})


def non_reentrant():
    plain({"use_reentrant": False})


def accumulate():
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(STEPS):
        for _ in range(3):
            x, y = batch()
            loss = F.cross_entropy(model(x), y) / 3
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        small.say(loss)


def closure():
    model = net()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2, history_size=2)
    for _ in range(STEPS):
        x, y = batch()

        def loss():
            optimizer.zero_grad()
            value = F.cross_entropy(model(x), y)
            value.backward()
            return value

        small.say(optimizer.step(loss))


def gan():
    """Trains the discriminator first, then the generator against it."""
    painter, judge = nn.Sequential(nn.Linear(4, 8), nn.Tanh()), nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(), nn.Linear(16, 1))
    of_painter, of_judge = torch.optim.Adam(painter.parameters(), lr=1e-3), torch.optim.Adam(judge.parameters(), lr=1e-3)
    for _ in range(STEPS):
        real, _ = batch()
        false = painter(torch.randn(8, 4))
        of_judge.zero_grad()
        loss = F.softplus(judge(false.detach())).mean() + F.softplus(-judge(real)).mean()
        loss.backward()
        of_judge.step()
        of_painter.zero_grad()
        other = F.softplus(-judge(false)).mean()
        other.backward()
        of_painter.step()
        small.say(loss + other)


def grad_only():
    """Computes gradients with autograd.grad, and applies them itself."""
    model = net()
    for _ in range(STEPS):
        x, y = batch()
        loss = F.cross_entropy(model(x), y)
        with torch.no_grad():
            for p, g in zip(model.parameters(), torch.autograd.grad(loss, list(model.parameters()))):
                p -= 0.1 * g
        small.say(loss)


def penalty():
    """Includes the norm of the gradient in the loss."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        x, y = batch()
        x.requires_grad_()
        loss = F.cross_entropy(model(x), y)
        (slope,) = torch.autograd.grad(loss, x, create_graph=True)
        loss = loss + slope.pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        small.say(loss)


def amp():
    """Uses mixed precision with a scaler, which skips one step because its gradients
    are not finite."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = Scaler()
    for step in range(STEPS):
        x, y = batch()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(x).float(), y)
        optimizer.zero_grad()
        scaler.scale(loss * float("inf") if step == 2 else loss).backward()
        scaler.step(optimizer)
        scaler.update()
        small.say(loss)


def Scaler():
    return torch.amp.GradScaler("cpu")


def own_optimizer():
    """Uses an optimizer that is not a torch.optim.Optimizer."""

    class Plain:
        def __init__(self, parameters):
            self.parameters = list(parameters)

        def zero_grad(self):
            for p in self.parameters:
                p.grad = None

        @torch.no_grad()
        def step(self):
            for p in self.parameters:
                p -= 0.1 * p.grad

    model = net()
    optimizer = Plain(model.parameters())
    for _ in range(STEPS):
        x, y = batch()
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        small.say(loss)


def functional():
    """Computes gradients with torch.func, without backward of a tensor."""
    model = net()
    parameters = dict(model.named_parameters())

    def loss_of(parameters, x, y):
        return F.cross_entropy(torch.func.functional_call(model, parameters, (x,)), y)

    for _ in range(STEPS):
        x, y = batch()
        gradients, loss = torch.func.grad_and_value(loss_of)(parameters, x, y)
        parameters = {name: (p - 0.1 * gradients[name]).detach() for name, p in parameters.items()}
        small.say(loss)


small.main(globals())
