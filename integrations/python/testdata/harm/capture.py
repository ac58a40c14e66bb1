"""During the capture of a graph no thread queries the device or records events there, nor does
any before the program uses the device."""

import gc
import sys
import threading
import types

import torch

from trainspan_torch import hooks
from trainspan_torch.device import Device

asked = []


class Event:
    def __init__(self, enable_timing):
        asked.append("made")

    def record(self):
        asked.append("recorded")

    def query(self):
        asked.append("asked")
        return True

    def elapsed_time(self, other):
        asked.append("timed")
        return 1.0


class Cuda:
    Event = Event
    used = capturing = False

    @staticmethod
    def is_initialized():
        return Cuda.used

    @staticmethod
    def is_current_stream_capturing():
        return Cuda.capturing


class Graph:
    def capture_begin(self, fails=False):
        if fails:
            raise RuntimeError("no capture")

    def capture_end(self):
        pass

    def replay(self):
        pass


graphs = types.ModuleType("torch.cuda.graphs")
graphs.CUDAGraph = Graph
hooks._graphs(graphs)
hooks.follow_device(Device(Cuda, hooks._loop))
net = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def step():
    del asked[:]
    optimizer.zero_grad()
    loader = iter(torch.utils.data.DataLoader([1.0]))
    net(torch.zeros(1, 2)).sum().backward()
    optimizer.step()
    hooks._device.collect()
    del loader
    gc.collect()
    return bool(asked)


assert not step(), "events were recorded before the first use of the device"
Cuda.used = True
assert step() and step()
Cuda.capturing = True
assert not step(), "events were recorded while this stream was captured"
Cuda.capturing = False
graph = Graph()
begun = threading.Thread(target=graph.capture_begin)
begun.start()
begun.join()
assert not step(), "events were recorded while another thread captured"
graph.capture_end()
assert step()
try:
    graph.capture_begin(fails=True)
except RuntimeError:
    pass
assert step()
mark = hooks._device.begin("forward")
graph.capture_begin()
del asked[:]
hooks._device.end(mark)
assert not asked, "the second event of a span was recorded during a capture"
graph.capture_end()
hooks._device = hooks._loop.on_close = None
sys.stdout.write("fine")
