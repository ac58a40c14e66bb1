"""Starts the ranks of a job on this machine, as torchrun does:

    python3 launch.py --ranks 4 train.py --epochs 2

If a rank fails, the launcher ends the others, and exits with the status of that rank.
"""

import os
import signal
import socket
import subprocess
import sys
import time


def main(args):
    ranks = 2
    if args[:1] == ["--ranks"]:
        ranks, args = int(args[1]), args[2:]
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    job = []
    for rank in range(ranks):
        env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        job.append(subprocess.Popen([sys.executable] + args, env=env))

    def end(number, _):
        for p in job:
            if p.poll() is None:
                p.send_signal(number)

    # Ctrl-C at a terminal reaches the ranks directly.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, end)
    status = 0
    while any(p.poll() is None for p in job):
        time.sleep(0.05)
        bad = [p.returncode for p in job if p.poll()]
        if bad and not status:
            status = bad[0] if bad[0] > 0 else 128 - bad[0]
            end(signal.SIGTERM, None)
    return status or next((128 - p.returncode if p.returncode < 0 else p.returncode for p in job if p.returncode), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
