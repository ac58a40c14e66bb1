"""A compiled model with spans of its own. It finds the API also without trainspan run."""

import os
import sys

import compiled
import small
import torch

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
import trainspan as ts  # noqa: E402
from trainspan.dftracer import ai, dft_fn  # noqa: E402


class Own(compiled.Net):
    """Has spans of its own in the compiled code."""

    def __init__(self):
        super().__init__()
        self.up = OwnUp()

    def forward(self, x):
        with dft_fn("own", "with"), ts.span("own", n=1) as span:
            x = self.up(x)
            span.add(n=2)
        ai.comm.send.start()
        x = self.down(x)
        ai.comm.send.stop()
        ts.metric(own=1)
        return self.function(x)

    @staticmethod
    @dft_fn("own").log
    def function(x):
        return x * 2


class OwnUp(compiled.Up):
    @ts.span("own")
    @ai.other.log
    def forward(self, x):
        return super().forward(x)


def own():
    model = Own()
    compiled.train(model, torch.compile(model, backend=compiled.BACKEND, fullgraph=True))


small.main(globals())
