"""A program that ends with an exception inside of spans."""

from trainspan.dftracer import ai

with ai:
    with ai.pipeline.train:
        with ai.compute.forward:
            pass
        with ai.compute.backward:
            raise RuntimeError("loss is not a number")
