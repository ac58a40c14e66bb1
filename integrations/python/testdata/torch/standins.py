"""Fakes of a device and of DistributedDataParallel, with the calls that the hooks use."""

import collections
import gc
import os
import sys
import threading
import time
import types
import warnings

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

from trainspan import _ring
from trainspan_torch import device, hooks
from trainspan_torch.parallel import gradients

# A device. Its stream takes 3 ms for each forward, which begins at the host's time or, if that
# is later, at the end of the previous work.


class Stream:
    at = 0.0


class Clock:
    """A clock of the sleeps of this program alone, so that the load of the machine changes nothing."""

    ns = 0

    @staticmethod
    def sleep(seconds):
        time.sleep(seconds)
        Clock.ns += int(seconds * 1e9)

    @staticmethod
    def clock():
        return Clock.ns

    def __getattr__(self, name):
        return getattr(_ring, name)


device._ring = Clock()  # measures the cost of events, which determines the steps with times


class Event:
    def __init__(self, enable_timing):
        assert enable_timing

    slow = 0  # seconds
    calls = collections.Counter()

    def record(self, stream=None):
        if self.slow:
            Clock.sleep(self.slow)
        Stream.at = max(Stream.at, time.monotonic() * 1e3)
        self.time = Stream.at
        self.calls["record"] += 1

    def query(self):
        self.calls["query"] += 1
        return self.happened()

    def happened(self):
        return time.monotonic() * 1e3 >= self.time

    def elapsed_time(self, other):
        assert self.happened() and other.happened(), "elapsed_time was called before the event happened"
        self.calls["elapsed_time"] += 1
        return other.time - self.time

    def __del__(self):
        os.abort()  # as the destructor of a CUDA event in a forked process


def forks():
    """Forks a process that ends as the worker of a loader, and one that ends as any program."""
    warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of a fork beside threads
    for ends in os._exit, sys.exit:
        child = os.fork()
        if child == 0:
            gc.collect()
            ends(0)
        status = os.waitpid(child, 0)[1]
        assert status == 0, "%s: the forked process ended with status %d" % (ends.__name__, status)



class Cuda:
    Event = Event

    @staticmethod
    def is_initialized():
        return True

    @staticmethod
    def is_current_stream_capturing():
        return False

    default = types.SimpleNamespace(stream_id=0)
    side = default  # the current stream

    @staticmethod
    def current_stream():
        return Cuda.side


class Net(torch.nn.Linear):
    def forward(self, x):
        Stream.at += 3
        return super().forward(x)


def build(kind, cuda=None):
    """Returns a build of PyTorch for a kind of device."""

    def current_accelerator():
        if kind is None:
            raise RuntimeError("Cannot access accelerator device when none is available.")
        return types.SimpleNamespace(type=kind)

    return types.SimpleNamespace(
        version=types.SimpleNamespace(cuda=cuda), cuda=Cuda, xpu=Cuda, Event=lambda kind, enable_timing: Event(enable_timing),
        accelerator=types.SimpleNamespace(current_accelerator=current_accelerator))


assert device.of(build("cuda", "12.4")) is Cuda and device.of(build(None)) is None and device.of(types.SimpleNamespace(version=build(None).version)) is None


class OtherDevice(Net):
    """A model whose parameters are on the second device."""

    def parameters(self, recurse=True):
        yield from [types.SimpleNamespace(device=types.SimpleNamespace(type="cuda", index=1)) for _ in range(2)]


class Used:
    """torch.cuda of a process that has changed no device: the current one is the first."""

    index, contexts = 0, set()

    def __init__(self, index):
        self.before, Used.index = Used.index, index

    def __enter__(self):
        pass

    def __exit__(self, *_):
        Used.index = self.before

    class Event(Event):
        stream = None

        def record(self, stream):
            assert stream is self.stream or self.stream is None, "an event was recorded on another device"
            self.stream = stream
            Used.contexts.add(stream.index)
            super().record()

        def query(self):
            Used.contexts.add(Used.index)
            return super().query()


def use_devices():
    """Replaces torch.cuda and returns it."""
    streams = [types.SimpleNamespace(stream_id=0, index=i) for i in range(2)]
    of_torch = {"_cuda_getCurrentStream": lambda index: (0, index), "_cuda_getDevice": lambda: Used.index, "_cuda_hasPrimaryContext": lambda index: index in Used.contexts}
    vars(torch._C).update(of_torch)
    cuda = torch.cuda
    cuda.Event, cuda.device, cuda.current_stream, cuda.is_initialized, cuda.is_current_stream_capturing = Used.Event, Used, lambda index=0: streams[index], lambda: True, lambda: False
    return cuda


if sys.argv[1:] == ["devices"]:
    Used.contexts.add(1)
    hooks.follow_device(device.Device(use_devices(), hooks._loop))
    net, contexts = OtherDevice(2, 2), []
    for model in net, Net(2, 2), net:  # the parameters of the second one are on no device
        optimizer = torch.optim.SGD(torch.nn.Module.parameters(model), lr=0.1)
        for _ in range(10):
            optimizer.zero_grad()
            model(torch.zeros(1, 2)).sum().backward()
            optimizer.step()
        time.sleep(0.1)
        hooks._device.collect()
        contexts.append(sorted(Used.contexts))
    assert contexts == [[1]] * 3 and Used.index == 0, contexts
    assert all(len(events) < 70 for events in hooks._device.events.values())
    sys.stdout.write("fine")
    sys.exit()

used = device.Device(device.of(build("xpu")), hooks._loop)
hooks.follow_device(used)
net = Net(2, 2)

if sys.argv[1:] == ["threads"]:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(20):
        optimizer.zero_grad()
        loss = net(torch.zeros(1, 2)).sum()
        actor = threading.Thread(target=net, args=(torch.zeros(1, 2),))
        actor.start()
        actor.join()
        loss.backward()
        optimizer.step()
    time.sleep(0.1)
    used.collect()
    sys.stdout.write("fine")
    sys.exit()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def train(steps, length, slow):
    """Trains with steps of a length in which a call of record takes a time."""
    Event.slow = slow
    for _ in range(steps):
        optimizer.zero_grad()
        net(torch.zeros(1, 2)).sum().backward()
        optimizer.step()
        Clock.sleep(length)


class Graph:
    """A graph of a device, which runs nothing during its capture."""

    def capture_begin(self):
        torch.set_num_threads(1)

    def capture_end(self):
        pass

    def replay(self):
        Stream.at += 5


def callables(model, sample):
    """Captures a forward and a backward after three of them to warm up."""
    for _ in range(3):
        torch.autograd.grad(model(sample).sum(), list(model.parameters()))
    graph = Graph()
    graph.capture_begin()
    torch.autograd.grad(model(sample).sum(), list(model.parameters()))
    graph.capture_end()
    return model


if sys.argv[1:] == ["graphs"]:
    graphs = types.SimpleNamespace(CUDAGraph=Graph, make_graphed_callables=callables)
    hooks._graphs(graphs)
    loader = DataLoader(TensorDataset(torch.zeros(8, 2)), batch_size=2)
    graphs.make_graphed_callables(net, torch.zeros(1, 2))
    train(3, 0, 0)
    step, evaluation = Graph(), Graph()
    step.capture_begin()
    train(1, 0, 0)
    step.capture_end()
    net.eval()
    evaluation.capture_begin()
    with torch.no_grad():
        net(torch.zeros(1, 2))
    evaluation.capture_end()
    net.train()
    for _ in range(5):
        step.replay()
    for _ in range(2):
        for _ in loader:
            step.replay()
        with torch.no_grad():
            for _ in loader:
                evaluation.replay()
    time.sleep(0.1)
    used.collect()
    sys.stdout.write("fine")
    sys.exit()

if sys.argv[1:] == ["sampled"]:
    used.current, used.current_index, used.has_context = (lambda index: Cuda.side), (lambda: 0), (lambda index: True)  # as of CUDA: its marks are known by their stream
    train(300, 0.006, 0.001)
    made = dict(Event.calls)
    train(500, 0.006, 0)
    sys.stdout.write("%(record)d %(query)d %(elapsed_time)d" % made)
    sys.exit()


class Parallel:
    """A model of DistributedDataParallel, which reduces gradients."""

    require_forward_param_sync = True


parallel = Parallel()
gradients.add(parallel, {"pg": "4", "group_size": 2})
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
for step in range(20):
    optimizer.zero_grad()
    net(torch.zeros(1, 2)).sum().backward()
    dist.all_reduce(torch.zeros(4))
    Cuda.side = types.SimpleNamespace(stream_id=7)
    dist.broadcast(torch.zeros(4), 0)  # beside the training, as of sharded parameters
    Cuda.side = Cuda.default
    optimizer.step()
dist.destroy_process_group()
forks()

time.sleep(0.1)
hooks._device.collect()
assert not hooks._device.marks and not hooks._device.spans
sys.stdout.write("fine")
