"""Iterators that are switched while they run."""

from dftracer.python import ai, dftracer

log = dftracer.initialize_log("out.pfw", None, -1)
node = ai.dataloader.fetch
kept = node.iter(range(2))  # nothing is read before the first element
node.disable()
node.enable()
print(list(kept))
node.disable()
print(list(node.iter(range(3))))
ai.enable()
for i in node.iter([]):
    pass
with ai.pipeline.epoch:
    pass
ai.compute.disable()
with ai.compute.forward, ai.compute:
    pass
ai.compute.forward.enable()
for _ in range(2):
    with ai.compute.forward, ai.compute:
        pass
log.finalize()
print("done")
