"""Passes wrong types, and prints the exceptions."""

from dftracer.python import IO, DFTracerAI, ai, dft_fn, dftracer
from dftracer.python.common import TagDType, TagValue

log = dftracer.initialize_log("out.pfw", None, -1)
for name, wrong in {
    "update epoch": lambda: ai.update(epoch="x"), "update list": lambda: ai.compute.update(step=[1]), "update nan": lambda: ai.update(epoch=float("nan")),
    "update size": lambda: ai.update(image_size="x"), "update args": lambda: ai.update(args=5), "call args": lambda: ai.compute(args=5),
    "call epoch": lambda: ai.compute.forward(epoch="x"), "call object": lambda: ai.compute.forward(step=object()), "positional": lambda: DFTracerAI("x"),
    "no category": lambda: DFTracerAI(), "io": lambda: IO("data", "data"), "node epoch": lambda: DFTracerAI(cat="x", epoch="y"),
    "fn": lambda: dft_fn("c", "n", epoch="x"), "fn update": lambda: dft_fn("c", "n").update(step=[]), "unknown": lambda: ai.update(epochs=1),
    "two functions": lambda: ai.compute(len, len), "positional call": lambda: ai.compute(None, True), "iter": lambda: list(ai.compute.iter(5)),
    "iter names": lambda: ai.compute.iter([], True), "tag": lambda: TagValue("x", TagDType.INT), "attribute": lambda: ai.nothing, "item": lambda: ai["compute"],
    "enter": lambda: ai.compute.__enter__(1), "metadata": lambda: ai.compute.start(1, 2),
}.items():  # fmt: skip
    try:
        wrong()
        print(name, "nothing")
    except Exception as e:
        print(name, type(e).__name__)
ai.disable()
for right in (lambda: ai.update(epoch="x"), lambda: ai.update(args=5), lambda: ai.compute.update(step=[1])):
    print(right() is not None)
ai.enable()
ai.data.update(epoch="5", step=True, image_idx=2.7, image_size="2.5", args={"a": None, "b": b"x"})
for node in (ai.data, ai.data.item, ai.data.preprocess, ai.data.io, ai.data.io.read):
    with node:
        pass
log.finalize()
print("done")
