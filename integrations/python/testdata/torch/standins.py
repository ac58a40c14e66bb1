"""What cannot be had here: a device, and the ways of torch 2. The hooks meet
stand-ins with the same calls."""

import os
import sys
import tempfile
import time
import types
import weakref

import torch
import torch.distributed as dist

from trainspan_torch import hooks
from trainspan_torch.device import Device

# A device: its stream works 3 ms on each forward, and begins where the host is,
# or when the work before is done.


class Stream:
    at = 0.0
    asked = 0


class Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        Stream.at = max(Stream.at, time.monotonic() * 1e3)
        self.time = Stream.at

    def query(self):
        Stream.asked += 1
        return time.monotonic() * 1e3 >= self.time

    def elapsed_time(self, other):
        assert self.query() and other.query(), "asked before it happened"
        return other.time - self.time


class Cuda:
    Event = Event

    @staticmethod
    def is_initialized():
        return True

    @staticmethod
    def is_current_stream_capturing():
        return False

    side = 0  # the stream that is current

    @staticmethod
    def current_stream():
        return Cuda.side

    @staticmethod
    def default_stream():
        return 0


class Net(torch.nn.Linear):
    def forward(self, x):
        Stream.at = max(Stream.at, time.monotonic() * 1e3) + 3
        return super().forward(x)


hooks._device = Device(Cuda)
hooks._loop.on_close = hooks._device.collect
net = Net(2, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


class Parallel:
    """Some model of DistributedDataParallel, which reduces gradients."""

    require_forward_param_sync = True


parallel = Parallel()
hooks._gradients.models = [[weakref.ref(parallel), {"pg": "4", "group_size": 2}, 0]]
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
for step in range(20):
    optimizer.zero_grad()
    net(torch.zeros(1, 2)).sum().backward()
    dist.all_reduce(torch.zeros(4))
    Cuda.side = 1
    dist.broadcast(torch.zeros(4), 0)  # beside the training, as of sharded parameters
    Cuda.side = 0
    optimizer.step()
dist.destroy_process_group()

# Backward that torch.compile traces is left alone.
traced = sys.modules["torch._dynamo.compiled_autograd"] = types.ModuleType("traced")
loss = net(torch.zeros(1, 2)).sum()
assert hooks._gradients.follow(loss) is None
traced.compiled_autograd_enabled = False
hook = hooks._gradients.follow(loss)
assert hook is not None
hooks._gradients.end(hook)
del sys.modules["torch._dynamo.compiled_autograd"]
assert hooks._gradients.follow(loss.detach()) is None

time.sleep(0.1)
hooks._device.collect()
assert not hooks._device.pending and len(hooks._device.free) < 200
hooks._device = hooks._loop.on_close = None
hooks._gradients.models = []

# Hooks of torch 2 around the step of every optimizer.
module = types.ModuleType("torch.optim.optimizer")
before, after = [], []
module.register_optimizer_step_pre_hook = before.append
module.register_optimizer_step_post_hook = after.append


class Optimizer:
    def __init__(self, inner=None):
        self.inner = inner

    def zero_grad(self, set_to_none=True):
        return None

    def step(self, fails=False):
        for hook in before:
            assert hook(self, (), {}) is None
        if fails:
            raise ValueError
        if self.inner:
            self.inner.step()
        for hook in after:
            assert hook(self, (), {}) is None


module.Optimizer = Optimizer
hooks._optimizer(module)
for _ in range(5):
    Optimizer(Optimizer()).step()
retried = Optimizer()
try:
    retried.step(fails=True)  # is forgotten when it is tried again
except ValueError:
    pass
retried.step()
retried.zero_grad()

# While torch.compile traces, a hook is nothing but a call.
hooks._compiling = lambda: True
net(torch.zeros(1, 2)).sum().backward()
Optimizer().step()
hooks._compiling = bool

# torch.distributed.checkpoint of torch 2 is loaded after torch.
with tempfile.TemporaryDirectory() as folder:
    package = os.path.join(folder, "checkpoint")
    os.mkdir(package)
    with open(os.path.join(package, "__init__.py"), "w") as f:
        f.write("from .state_dict_saver import async_save, save\nfrom .state_dict_loader import load\n")
    with open(os.path.join(package, "state_dict_saver.py"), "w") as f:
        f.write("def save(state_dict, *, checkpoint_id=None):\n    return 1\n\n\ndef async_save(state_dict, *, checkpoint_id=None):\n    return save(state_dict, checkpoint_id=checkpoint_id)\n")
    with open(os.path.join(package, "state_dict_loader.py"), "w") as f:
        f.write("def load(state_dict, *, checkpoint_id=None):\n    return None\n")
    torch.distributed.__path__.append(folder)
    sys.modules.pop("torch.distributed.checkpoint", None)
    import torch.distributed.checkpoint as dcp

    assert dcp.save({}, checkpoint_id="/checkpoints/7") == 1
    assert dcp.async_save({}, checkpoint_id="/checkpoints/8") == 1
    assert dcp.load({}, checkpoint_id="/checkpoints/7") is None
sys.stdout.write("fine")
