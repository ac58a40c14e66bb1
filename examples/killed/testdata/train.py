import os
import threading
import time

from trainspan.dftracer.logger import ai

journal = os.open(os.environ["KILLED_JOURNAL"], os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)


def pulse():
    while True:
        time.sleep(0.01)
        os.write(journal, b"pulse %d\n" % time.time_ns())


@ai.compute.forward
def forward():
    time.sleep(0.002)  # a stand-in for work


threading.Thread(target=pulse, daemon=True).start()
while True:
    forward()
    os.write(journal, b"step %d\n" % time.time_ns())
