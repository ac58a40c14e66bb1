"""Trains like the programs of DFTracer's guides: no span is named an iteration, and the loops are
the program's own. The arguments are the number of epochs and batches."""

import sys
import time

from trainspan.dftracer import ai, dftracer

log = dftracer.initialize_log(None, None, -1)
epochs, batches = int(sys.argv[1]), int(sys.argv[2])


@ai.data.preprocess
def prepare(number):
    return number


def batch():
    for number in range(batches):
        time.sleep(0.004)
        yield prepare(number)


@ai.compute.forward
def forward(x):
    time.sleep(0.002)


@ai.compute.backward
def backward(x):
    time.sleep(0.003)
    with ai.comm.all_reduce:
        time.sleep(0.001)


@ai.compute
def compute(x):
    forward(x)
    backward(x)


@ai.pipeline.train
def train():
    for epoch in ai.pipeline.epoch.iter(range(epochs)):
        for x in ai.dataloader.fetch.iter(batch()):
            compute(x)


train()
log.finalize()
