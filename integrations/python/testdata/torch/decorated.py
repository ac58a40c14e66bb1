"""Spans on functions of compiled models, below and above other decorators. Prints results and
gradients, which must be the same with the client and without, compiled and not."""

import functools
import logging
import sys
import warnings

if "first" in sys.argv:  # the client is loaded before torch, and then knows nothing of it
    import trainspan.dftracer

    @trainspan.dftracer.ai.compute.backward
    def early(x):
        return x * 3


import torch
import torch._dynamo  # before the client, else: its frames are then not skipped
import torch.nn as nn

import trainspan as ts
from trainspan.dftracer import ai, dft_fn

if "first" not in sys.argv:
    early = ts.span("early")(lambda x: x * 3)

warnings.simplefilter("ignore")
torch._logging.set_logs(all=logging.ERROR)
CALLS = []


def twice(f):
    @functools.wraps(f)
    def call(*args, **kwargs):
        return 2 * f(*args, **kwargs)

    return call


def counted(f):
    """A decorator that Dynamo must not trace."""

    @functools.wraps(f)
    def call(*args, **kwargs):
        CALLS.append(f.__name__)
        return f(*args, **kwargs)

    return torch.compiler.disable(call)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.work(self.one(x)) + self.one(x)


class Teacher(Model):
    @torch.no_grad()
    @ts.span("teacher")
    def work(self, x):
        return self.two(x)


class Node(Model):
    @torch.inference_mode(False)
    @torch.no_grad()
    @ai.compute.forward
    def work(self, x):
        return self.two(x)


class Twice(Model):
    @twice
    @dft_fn("m").log
    def work(self, x):
        return self.two(x)


class Between(Model):
    @ts.span("outer")
    @twice
    @ts.span("inner")
    def work(self, x):
        return self.two(x)


class Static(Model):
    @staticmethod
    @twice
    @ts.step
    def work(x):
        return x + 1


class Cast(Model):
    @torch.autocast("cpu", dtype=torch.bfloat16)
    @ts.span("cast", n=1)
    def work(self, x):
        return self.two(x).float()


class Top(Model):
    @twice
    @ts.span("top", n=1)
    @ai.compute.forward
    def forward(self, x):
        return self.one(x)


class TopAlone(Model):
    @ts.span("top")
    def forward(self, x):
        return self.one(x)


class Steps(Model):
    @ts.step
    def forward(self, x):
        return self.one(x)


class Values(Model):
    def forward(self, x):
        for value in self.values(x):
            x = x + self.one(value)
        return x

    @ts.span("values")
    def values(self, x):
        yield x
        yield x * 2


class Excluded(Model):
    @ts.span("outer")
    @counted
    @ts.span("inner")
    def work(self, x):
        return self.two(x)


outside = dft_fn("net", "outside")


class Outer(Model):
    """Uses an object of DFTracer's that was made outside of compiled code."""

    def forward(self, x):
        outside.reset()
        x = self.one(x)
        outside.update(step=1).flush()
        outside.log_metadata("part", 1)
        outside.relate(0, 1)
        with outside:
            return self.two(x)


class Broken(Model):
    """Uses an object of DFTracer's that compiled code has made after a graph break."""

    def forward(self, x):
        fn = dft_fn("net", "forward")
        x = self.one(x)
        torch._dynamo.graph_break()
        fn.update(step=1).reset()
        fn.flush()
        with fn:
            x = self.two(x)
        used(fn)
        with dft_fn("net", "part") as part:
            part.update(args={"a": 1})
            part.relate(0, 1)
        return x


@torch.compiler.disable
def used(fn):
    fn.flush().reset().relate(0, 1)
    with fn as same:
        same.update(step=1, args={"a": 1})
    for _ in fn.iter([1]):
        pass
    assert fn.log(twice)


@twice
@ts.span("plain")
def plain(x):
    return x * 3


def results(model, run):
    """Runs a model, and returns its result in all bits and the sums of gradients."""
    model.zero_grad()
    torch.manual_seed(2)
    out = run(torch.randn(2, 4)).sum()
    out.backward()
    grads = [None if p.grad is None else round(p.grad.sum().item(), 4) for p in model.parameters()]
    return [out.item().hex()] + grads


def shown(name, run):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    try:
        found = [run(), run()]
    except torch._dynamo.exc.Unsupported as e:
        found = str(e).splitlines()[0]
    print(name, found, "graphs", torch._dynamo.utils.counters["stats"]["unique_graphs"], flush=True)


for kind in Teacher, Node, Twice, Between, Static, Cast, Top, TopAlone, Steps, Values, Outer, Excluded, Broken:
    model = kind()
    shown(kind.__name__ + " eager", lambda: results(model, model))
    for whole in (False, True) if kind not in (Excluded, Broken) else (False,):
        compiled = torch.compile(kind(), backend="eager", fullgraph=whole)
        shown("%s %s" % (kind.__name__, whole), lambda: results(compiled, compiled))
print("calls", CALLS)
x = torch.ones(2)
for f in plain, early:
    for whole in False, True:
        alone = torch.compile(f, backend="eager", fullgraph=whole)
        shown("function %s" % whole, lambda: alone(x).tolist())
        inside = torch.compile(lambda x: f(x) + 1, backend="eager", fullgraph=whole)
        shown("in a function %s" % whole, lambda: inside(x).tolist())


def optimizers(way):
    """Compiles a step that others have replaced: schedulers of the learning rate do, and programs."""
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=torch.tensor(0.1))
    if way == "scheduler":
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    else:
        step = optimizer.step

        @functools.wraps(step)
        def scaled(*args, **kwargs):
            for p in model.parameters():
                p.grad.mul_(2)
            return step(*args, **kwargs)

        optimizer.step = scaled
    run = torch.compile(optimizer.step, backend="eager")

    def once():
        for p in model.parameters():
            p.grad = torch.ones_like(p)
            p.data.fill_(1)
        run()
        if way == "scheduler":
            scheduler.step()
        return [p.sum().item().hex() for p in model.parameters()]

    shown(way, once)


optimizers("scheduler")
optimizers("scaled")
print("fine")
