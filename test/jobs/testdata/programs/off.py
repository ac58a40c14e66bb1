"""Nodes that are off while the epoch, the step and arguments change, and on again."""

from trainspan.dftracer import ai

with ai:
    ai.update(epoch=0, step=0)
    with ai.comm.all_reduce:
        pass
    ai.comm.disable()
    ai.update(epoch=1, step=5, args={"phase": "second"})
    with ai.comm.all_reduce:
        pass
    with ai.compute.forward:
        pass
    ai.comm.enable()
    with ai.comm.all_reduce:
        pass
    ai.update(step=6)
    with ai.comm.all_reduce:
        pass
