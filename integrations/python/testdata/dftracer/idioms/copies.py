"""Copies of nodes record like the nodes."""

import copy
import pickle

from dftracer.python import DFTracerAI, ai, dftracer

log = dftracer.initialize_log("out.pfw", None, -1)


class Kept(DFTracerAI):
    pass


own = Kept(cat="own", name="kept", epoch=3)
own.mark = [1]
for node in (ai.compute.forward, ai.comm, ai.checkpoint.io, own, ai.data.item.derive("x")):
    for again in (copy.copy(node), copy.deepcopy(node), pickle.loads(pickle.dumps(node))):
        with again:
            pass
        print(type(again) is type(node), str(again.cat), str(again.name), getattr(again, "mark", None))
print(copy.deepcopy(own) is own, sorted(vars(ai.compute).keys() & {"forward", "backward", "step"}))
log.finalize()
print("done")
