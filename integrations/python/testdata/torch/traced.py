"""Ways to record the operations of compiled graphs."""

import sys

import torch
import torch.nn as nn

from trainspan.dftracer.python import Dynamo, create_backend, dftracer_dynamo_backend, dynamo

torch.manual_seed(1)
torch.set_num_threads(1)
x = torch.randn(3, 4)
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
want = net(x)

# The backend records forward and backward of the graphs that autograd makes of the model.
whole = torch.compile(net, backend=dftracer_dynamo_backend)
got = whole(x)
assert torch.equal(got, want)
got.sum().backward()
gradients = [p.grad.clone() for p in net.parameters()]
for p in net.parameters():
    p.grad = None
net(x).sum().backward()
assert all(torch.equal(p.grad, g) for p, g in zip(net.parameters(), gradients))

# The operations that the program called, with arguments.
torch._dynamo.reset()
plain = torch.compile(net, backend=create_backend(name="plain", epoch=1, step=100, image_size=(224, 224), autograd=False))
assert torch.equal(plain(x), want)


# A decorator, with and without arguments, and a disabled one.
class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    @dynamo.compile
    def forward(self, x):
        return torch.sigmoid(self.fc(x))

    @dynamo.compile(autograd=False)
    def other(self, x):
        return self.fc(x).tanh()


torch._dynamo.reset()
own = Own()
with torch.no_grad():
    assert torch.equal(own(x), torch.sigmoid(own.fc(x)))
    assert torch.equal(own.other(x), own.fc(x).tanh())
off = Dynamo(enable=False)
assert off.compile(want.sum) == want.sum and off.count_parameters(own) == 10 and off.count_parameters(x) is None
sys.stdout.write("fine")
