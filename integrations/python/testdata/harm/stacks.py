"""Trains two steps, and prints how the client used a signal.

stacks.py free        the client writes the stacks to its file when the signal is sent
stacks.py taken       the program has handlers for all candidates before it trains
stacks.py later       the program sets a handler after the first step, and gets the signal itself
stacks.py forked      a child that trains has a separate file
stacks.py blocked     the candidates are blocked, as for a thread that waits for them
"""

import glob
import os
import signal
import sys
import warnings

import torch

RINGS = os.environ["TRAINSPAN_RING"]
CANDIDATES = range(int(signal.SIGRTMAX) - 10, int(signal.SIGRTMAX) - 6)


def train(backward=True):
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(torch.ones(1, 2)).sum()
        if backward:
            loss.backward()
        optimizer.step()


def files():
    found = glob.glob(os.path.join(RINGS, "stack-*.names"))
    return {int(f.split("-")[-2]): (f, int(f.split("-")[-1][:-6])) for f in found}


def text(how):
    if how == "taken":
        for n in CANDIDATES:
            signal.signal(n, lambda *a: None)
    if how == "blocked":
        signal.pthread_sigmask(signal.SIG_BLOCK, CANDIDATES)
    handlers = [signal.getsignal(n) for n in CANDIDATES]
    train()
    if [signal.getsignal(n) for n in CANDIDATES] != handlers:
        return "changed"
    mine = files().get(os.getpid())
    if mine is None:
        return "none"
    path, number = mine
    if how == "later":
        got = []
        before = signal.signal(number, lambda *a: got.append(1))
        train()
        os.kill(os.getpid(), number)
        return "%s %s %s" % (before is signal.SIG_DFL, len(got), os.path.exists(path))
    if how == "forked":
        warnings.simplefilter("ignore", DeprecationWarning)  # torch has threads
        pid = os.fork()
        if pid == 0:
            train(backward=False)  # autograd's threads do not survive a fork
            there = os.getpid() in files()
            os.kill(os.getpid(), number)
            os._exit(0 if there and os.path.getsize(files()[os.getpid()][0]) and not os.path.getsize(path) else 1)
        return str(os.waitpid(pid, 0)[1])
    os.kill(os.getpid(), number)
    with open(path) as f:
        said = f.read()
    return "%s %s" % ("most recent call first" in said and "stacks.py" in said, os.get_inheritable(int(max(f for f in os.listdir("/proc/self/fd") if os.path.realpath("/proc/self/fd/" + f) == path))))


print(text(sys.argv[1]))
