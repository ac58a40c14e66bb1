"""Functions that the jobs share. The module does not load PyTorch by itself."""

import os
import socket
import subprocess
import sys
import time

DELAY = 0.08  # seconds: ten times the duration of a phase of these models


def slow(phase):
    """Sleeps in the phase and on the rank that SLOW names, for the report to find."""
    if os.environ.get("SLOW") == phase + ":" + os.environ.get("RANK", "0"):
        time.sleep(DELAY)


def say(value):
    """Prints the rank, and a number with all its bits."""
    number = value.item() if hasattr(value, "item") else float(value)
    print(os.environ.get("RANK", "0"), number.hex(), flush=True)


def free_port():
    """Returns an unused port that the system does not assign itself: it assigns ports from
    32768 on, and the other jobs of this machine use many of them."""
    while True:
        port = 10000 + int.from_bytes(os.urandom(4), "big") % 20000
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        return str(port)


def launched(ranks=2, **env):
    """Starts the program again as each rank, and exits with their status. In a rank it
    does nothing. The output of the ranks is printed in their order."""
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
