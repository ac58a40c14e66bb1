"""Ways to record the operations of compiled graphs."""

import operator
import sys
import threading
import weakref

import torch
import torch.nn as nn

from trainspan.dftracer.python import Dynamo, create_backend, dftracer_dynamo_backend, dynamo

torch.manual_seed(1)
torch.set_num_threads(1)
x = torch.randn(3, 4)
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
want = net(x)

# A graph that two threads run at the same time, each with its own values, and that keeps none.
both, graph = threading.Barrier(2), torch.fx.Graph()
first = graph.placeholder("x")
second = graph.call_function(lambda x: both.wait(60) and x or x, (first,))
graph.output(graph.call_function(operator.add, (first, second)))
run, results = Dynamo()._traced(torch.fx.GraphModule(nn.Module(), graph)), {}
threads = [threading.Thread(target=lambda i=i: results.update({i: run(torch.tensor(i))})) for i in (1, 2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert {i: int(value) for i, value in results.items()} == {1: 2, 2: 4}, results
kept = [weakref.ref(value) for value in results.values()]
results.clear()
del threads, thread
assert not any(value() is not None for value in kept), "the graph keeps its output"
if sys.argv[1:] == ["graph"]:
    sys.stdout.write("fine")
    sys.exit()

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
