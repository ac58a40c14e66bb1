"""A loop that catches the exceptions of a signal handler, one about every millisecond, and
prints the numbers of caught and raised ones. `signals.py ai` records with the API, `signals.py
torch` trains."""

import signal
import sys

COUNT = int(sys.argv[2])
raised = caught = done = 0


class Alarm(Exception):
    pass


def handler(signum, frame):
    global raised
    if frame.f_code.co_filename.startswith("<frozen importlib"):  # exceptions in its weak references are lost, with the client and without
        signal.setitimer(signal.ITIMER_REAL, 0.0005)
        return
    raised += 1
    raise Alarm


if sys.argv[1] == "ai":
    from trainspan.dftracer import ai, dft_fn

    @ai.compute.backward
    def decorated():
        pass

    @dft_fn("data").log
    def logged(step=1):
        pass

    def turn():
        with ai.compute.forward:
            ai.update(step=done)
        decorated()
        logged()
        with dft_fn("data", name="block") as f:
            f.update(args={"done": done})
        for _ in ai.dataloader.fetch.iter(range(2)):
            pass
else:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    data = TensorDataset(torch.zeros(12, 4))

    def turn():
        torch.set_grad_enabled(True)  # PyTorch's own statement may have been interrupted
        for i, (x,) in enumerate(DataLoader(data, batch_size=4)):
            optimizer.zero_grad()
            net(x).sum().backward()
            optimizer.step()
            if i == 1:
                break


turn()  # opens the ring buffer: if this takes longer than the interval of the alarms, each attempt is interrupted
signal.signal(signal.SIGALRM, handler)


def until_alarm():
    global done
    signal.setitimer(signal.ITIMER_REAL, 0.0005 + raised % 64 * 1e-5)
    before = raised
    while raised == before:
        turn()
        done += 1


while raised < COUNT:
    try:
        until_alarm()
    except Alarm:
        caught += 1
for _ in range(20):
    turn()
sys.stdout.write("%d of %d" % (caught, raised))
