"""What the jobs share. It loads PyTorch only where it is asked for."""

import os
import socket
import subprocess
import sys
import time

DELAY = 0.08  # ten times what a phase of these models takes


def slow(phase):
    """Sleeps where a delay is to be found: in the phase of the rank that SLOW names."""
    if os.environ.get("SLOW") == phase + ":" + os.environ.get("RANK", "0"):
        time.sleep(DELAY)


def say(value):
    """Prints a number with all its bits, and the rank before it."""
    number = value.item() if hasattr(value, "item") else float(value)
    print(os.environ.get("RANK", "0"), number.hex(), flush=True)


def free_port():
    """A port that nobody listens on, and that the system gives to nobody: those begin at
    32768, and the other jobs of this machine take many."""
    while True:
        port = 10000 + int.from_bytes(os.urandom(4), "big") % 20000
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        return str(port)


def launched(ranks=2, **env):
    """Starts the program once more as each rank, and ends as they do. In a rank it
    does nothing. What ranks print comes in their order."""
    if "RANK" in os.environ:
        return
    env = dict(os.environ, WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port(), **env)
    job = [subprocess.Popen([sys.executable] + sys.argv, env=dict(env, RANK=str(i), LOCAL_RANK=str(i)), stdout=subprocess.PIPE) for i in range(ranks)]
    for p in job:
        sys.stdout.buffer.write(p.stdout.read())
    sys.exit(max([abs(p.wait()) for p in job]))


def main(functions):
    """Runs the function that the first argument names."""
    import torch

    torch.manual_seed(7)
    torch.set_num_threads(1)
    functions[sys.argv[1]]()
