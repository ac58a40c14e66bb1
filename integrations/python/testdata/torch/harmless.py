"""Checks the behaviour of PyTorch that the hooks must not change. Fails if one of them does."""

import copy
import inspect
import io
import os
import pickle
import sys

assert "torch" not in sys.modules, "the hooks have imported torch"
threads = len(os.listdir("/proc/self/task"))

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

on = os.environ.get("TRAINSPAN_TORCH") != "0" and os.environ.get("DFTRACER_ENABLE") != "0"
watched = "trainspan" in type(vars(nn.Module)["__call__"]).__module__
assert watched == on, vars(nn.Module)["__call__"]
assert type(torch.__spec__.loader).__name__ == "SourceFileLoader" and "exec_module" not in vars(torch.__spec__.loader)
assert inspect.getsource(nn.Linear).startswith("class Linear")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


net, x = Net(), torch.randn(3, 4)
y = net(x)

# Pickling and copying work by name, and return the same object.
for f in (torch.save, torch.load, getattr(torch.autograd, "_engine_run_backward", torch.autograd.backward), torch.optim.Optimizer.zero_grad, torch.distributed.all_reduce, DataLoader.__iter__):
    assert pickle.loads(pickle.dumps(f)) is f, f
    assert copy.deepcopy(f) is f, f
    assert inspect.signature(f) is not None and f.__doc__ != "" and f.__wrapped__ if on else True, f
assert torch.equal(copy.deepcopy(net)(x), y)
assert torch.equal(pickle.loads(pickle.dumps(net))(x), y)
buffer = io.BytesIO()
torch.save(net, buffer)
buffer.seek(0)
whole = {"weights_only": False} if "weights_only" in inspect.signature(torch.load).parameters else {}
assert torch.equal(torch.load(buffer, **whole)(x), y)

# Compilers.
assert torch.allclose(torch.jit.script(Net())(x), torch.zeros(3, 2), atol=10)
assert torch.allclose(torch.jit.trace(net, x)(x), y)
graph = torch.fx.symbolic_trace(net)
assert [n.op for n in graph.graph.nodes].count("call_module") == 2, graph.graph
assert torch.allclose(graph(x), y)
if hasattr(torch, "compile"):
    import torch._dynamo

    torch._dynamo.reset()
    explained = torch._dynamo.explain(net)(x)
    assert explained.graph_break_count == 0, explained
    compiled = torch.compile(net, backend="eager", fullgraph=True)
    for _ in range(3):
        assert torch.allclose(compiled(x), y)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 2
if hasattr(torch, "export"):
    assert torch.allclose(torch.export.export(net, (x,)).module()(x), y)

# Before torch 2.6, Dynamo finds collectives that it may rewrite by the function that it compiles.
if on and tuple(int(n) for n in torch.__version__.split(".")[:2]) < (2, 6):
    from trainspan_torch import comm

    class Functional:
        traceable_collective_remaps = {torch.distributed.all_reduce: None}
        wait_tensor = staticmethod(lambda tensor: tensor)

    assert hasattr(torch.distributed.all_reduce, "_torchdynamo_inline")
    comm._functional(Functional)
    assert not hasattr(torch.distributed.all_reduce, "_torchdynamo_inline") and hasattr(torch.distributed.broadcast, "_torchdynamo_inline")

# Optimizers: pickled, copied, with a closure, with hooks of other code.
optimizer = torch.optim.Adam(net.parameters())
net(x).sum().backward()
optimizer.step()
copied = copy.deepcopy(optimizer)
assert pickle.loads(pickle.dumps(optimizer)).state_dict().keys() == copied.state_dict().keys()
assert optimizer.step(lambda: torch.tensor(3.0)) == 3

# The client keeps no more than 64 modules that are trained in evaluation mode.
nets = [nn.Linear(4, 4).eval() for _ in range(100)]
for other in nets:
    other(x).sum().backward()
if on:
    from trainspan_torch import hooks

    assert len(hooks._loop.modeless) == 64, len(hooks._loop.modeless)

# Errors reach the program, and later calls work.
for bad in (lambda: net(x[:, :2]), lambda: torch.autograd.backward(x), lambda: torch.load("/none")):
    try:
        bad()
    except (RuntimeError, FileNotFoundError) as e:
        assert e.__traceback__ is not None
    else:
        raise AssertionError(bad)
assert torch.equal(net(x), net(x))


class Broken(torch.utils.data.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, i):
        raise KeyError("broken")


for workers in (0, 1):
    try:
        for _ in DataLoader(Broken(), num_workers=workers, multiprocessing_context="fork" if workers else None):
            pass
    except KeyError as e:
        assert "broken" in str(e)
    else:
        raise AssertionError("no error")

# Functions return the same values.
work = TensorDataset(torch.arange(8.0))
assert [b[0].tolist() for b in DataLoader(work, batch_size=4)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
iterator = iter(DataLoader(work, batch_size=4))
assert len(iterator) == 2 and next(iterator) and next(iterator) and next(iterator, None) is None
assert len(os.listdir("/proc/self/task")) >= threads
sys.stdout.write("fine")
