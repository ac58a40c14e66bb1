"""Reports a job with a Dask cluster of processes on this machine, and writes the cost to
standard error:

    python3 cluster.py --workers 2 --command bin/trainspan job/node* >report.json

--kill kills a worker (SIGKILL) after half of the digests; another one replaces it. The program
needs dask and distributed.
"""

import argparse
import os
import resource
import signal
import sys
import threading
import time

import trainspan_dask
from dask.distributed import Client, LocalCluster


def left(client):
    """Returns the number of parts for which the scheduler has no digest. The scheduler releases
    digests after merging them."""
    return client.run_on_scheduler(
        lambda dask_scheduler: sum("digest-part" in str(t.key) and t.state not in ("memory", "released") for t in dask_scheduler.tasks.values())
    )


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--workers", type=int, default=2)
    args.add_argument("--kill", action="store_true")
    args.add_argument("--command")
    args.add_argument("parts", nargs="+")
    o = args.parse_args()
    took = None
    try:
        loopback = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "worker_dashboard_address": None}
        with LocalCluster(n_workers=o.workers, threads_per_worker=1, **loopback) as cluster, Client(cluster) as client:
            killed, over = threading.Event(), threading.Event()

            def kill():
                while not over.is_set() and left(client) == 0:
                    time.sleep(0.01)  # not started yet
                while left(client) * 2 > len(o.parts):
                    time.sleep(0.01)
                if over.is_set():
                    return
                victim = next(iter(client.run(os.getpid).values()))
                os.kill(victim, signal.SIGKILL)
                killed.set()

            killer = threading.Thread(target=kill, daemon=True)
            if o.kill:
                killer.start()
            began = time.time()
            text = trainspan_dask.report(o.parts, command=o.command)
            took = time.time() - began
            over.set()
            if o.kill:
                killer.join()
            sys.stdout.write(text)
            sys.stdout.flush()
    except TimeoutError as e:  # on a busy machine workers end late; the report is complete
        if took is None:
            raise
        sys.stderr.write("the cluster did not end in time: %r\n" % e)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    sys.stderr.write(
        "%d parts, %d workers%s: %.1f s of wall time; processes of the cluster: CPU %.1f s\n"
        % (len(o.parts), o.workers, ", one of them killed" if killed.is_set() else "", took, used.ru_utime + used.ru_stime)
    )


if __name__ == "__main__":
    main()
