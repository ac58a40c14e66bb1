"""Each form of DFTracer's API in which a span gets arguments, and a few more."""

import asyncio

from trainspan.dftracer.python import DFTracerAI, EntityRelation, EntityRole, ai, dft_fn, dftracer

log = dftracer.initialize_log("api.pfw", None, -1)


@ai.compute.forward(args={"arg1": "value1", "arg2": 2}, epoch=3)
def forward(x):
    return x


@ai.compute.backward(step=4)
async def backward(x):
    return x


class Data:
    step = 7
    image_idx = 8

    @ai.data.item.init(args={"n": 1})
    def __init__(self):
        pass

    @dft_fn("reader").log
    def read(self, epoch, image_size=2.5):
        return epoch

    @dft_fn("reader").log_init
    def open(self, image_idx=None, *, step=1):
        pass

    @staticmethod
    @dft_fn("reader").log_static
    def static(step):
        return step

    @dft_fn("reader", epoch=1).log(name="named")
    def named(self):
        raise KeyError("x")


assert forward(1) == 1 and asyncio.run(backward(2)) == 2
data = Data()
data.read(5)
data.open(3)
Data.static(6)
try:
    data.named()
except KeyError:
    pass
fn = dft_fn("loops", epoch=9)
for i in fn.iter(range(2), name="walk", iter_name="at"):
    fn.update(args={"list": [1, "a"], "whole": 1 << 40})
with dft_fn("scopes", "outer", image_size=(224, 224)) as outer:
    with outer:
        outer.update(step=1)
    outer.uses("file", "a")
with DFTracerAI(cat="own", name="op", epoch=1, step=100):
    pass
for batch in ai.dataloader.fetch(args={"shard": 5}).iter(range(1)):
    pass
with ai.data.io.read, ai.other.log, ai.checkpoint.io.close:
    pass
ai.compute.disable()
forward(1)  # has its own arguments, so it is not part of the tree
with ai.compute.step, ai.compute.step(enable=True, step=2):
    pass
ai.compute.enable()
dft_fn("m").log_metadata("key", "value")
log.set_app_metadata_int("layers", 12)
log.declare_entity_type("file", EntityRole.INPUT, "what is read")
assert log.declare_entity("protein_structure", "MGYP0001") == 0x8F0DE68C04EEA0BF
log.relate_entities(EntityRelation.CONTAINS, log.declare_entity("file", "a"), log.declare_entity("file", "b", 2, "/b"))
log.log_event("past", "own", log.get_time() - 10, 5, {"a": (0, 1)}, {"f": (0, 1.5)}, {"s": (0, "t")})
log.finalize()
