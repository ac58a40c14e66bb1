"""The job of ai/logging_test.go with DFTracer's Python API: a linear model that
learns to return 1 for any input. It uses every kind of node."""

import array
import math
import os
import sys
import tempfile

from trainspan.dftracer.python import ai, dftracer

WIDTH, FILES, EPOCHS = 256, 2, 3


class Data:
    def __init__(self, folder):
        self.folder = folder
        for i in range(FILES):
            with open(self.path(i), "wb") as f:
                array.array("d", (math.sin(i * WIDTH + k) for k in range(WIDTH))).tofile(f)

    def path(self, i):
        return os.path.join(self.folder, "data-%d.bin" % i)

    @ai.data.item
    def read(self, i):
        values = array.array("d")
        with open(self.path(i), "rb") as f:
            values.fromfile(f, WIDTH)
        return values

    @ai.dataloader.fetch
    def batches(self):
        for i in range(FILES):
            yield self.read(i)


@ai.data.preprocess.derive(name="collate")
def collate(values):
    return list(values)


@ai.device.transfer
def transfer(values):
    return tuple(values)


@ai.compute.forward
def forward(weights, values):
    return sum(w * v for w, v in zip(weights, values)) - 1


@ai.compute.backward
def backward(weights, values, error):
    with ai.comm.all_reduce(enable=False):
        pass
    for k, v in enumerate(values):
        weights[k] -= 0.01 * error * v


@ai.compute
def compute(weights, values):
    backward(weights, values, forward(weights, values))


class Checkpoint:
    @ai.checkpoint.init
    def __init__(self, folder):
        self.path = os.path.join(folder, "weights.bin")
        self.capture_now([0.0] * WIDTH)

    def capture_now(self, weights):
        with open(self.path, "wb") as f:
            array.array("d", weights).tofile(f)

    @ai.checkpoint.capture
    def capture(self, weights):
        self.capture_now(weights)

    @ai.checkpoint.restart
    def restart(self):
        values = array.array("d")
        with open(self.path, "rb") as f:
            values.fromfile(f, WIDTH)
        return list(values)


def steps(data, weights, epoch):
    for step, values in ai.dataloader.fetch.iter(enumerate(data.batches())):
        ai.compute.step.start()
        compute(weights, transfer(collate(values)))
        ai.compute.step.stop()
        ai.update(step=step, epoch=epoch)


@ai.pipeline.train
def train(folder, as_metadata):
    data, checkpoint = Data(folder), Checkpoint(folder)
    weights = checkpoint.restart()
    if as_metadata:
        for epoch in range(EPOCHS):
            ai.pipeline.epoch.start(metadata=True)
            steps(data, weights, epoch)
            ai.pipeline.epoch.stop(metadata=True)
    else:
        for epoch in ai.pipeline.epoch.iter(range(EPOCHS)):
            steps(data, weights, epoch)
    checkpoint.capture(weights)


if __name__ == "__main__":
    setting = sys.argv[1]
    if setting.startswith("disable_"):
        {
            "all": ai, "dataloader": ai.dataloader, "device": ai.device, "compute": ai.compute, "comm": ai.comm, "ckpt": ai.checkpoint,
        }[setting[len("disable_"):]].disable()  # fmt: skip
    log = dftracer.initialize_log(logfile=sys.argv[2] if len(sys.argv) > 2 else None, data_dir=None, process_id=-1)
    with tempfile.TemporaryDirectory() as directory:
        train(directory, setting == "epoch_as_metadata")
    log.finalize()
