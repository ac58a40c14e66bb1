"""Enums: their members, their text, and the other operations of an enum of texts."""

import copy
import enum
import json
import pickle
import sys

from dftracer.python import *
from dftracer.python import DFTracerAI, EntityRole, ai, dftracer
from dftracer.python.ai_common import ProfileCategory
from dftracer.python.common import TagDType, TagType, TagValue

log = dftracer.initialize_log("out.pfw", None, -1)
for kind in (ProfileCategory, ComputeEvent, DataEvent, DataLoaderEvent, CommunicationEvent, DeviceEvent, CheckpointEvent, PipelineEvent, IOEvent):
    print(kind.__name__, [(m.name, m.value, str(m), "%s" % m, format(m), "{:>12}".format(m), repr(m)) for m in kind], len(kind), issubclass(kind, (str, enum.Enum)))
word = ComputeEvent.FORWARD
print(word == "forward", "forward" == word, word != "x", word in ("forward",), word + ".init", word.upper(), sorted([word, ComputeEvent.BACKWARD]), isinstance(word, str))
print(ComputeEvent("forward") is word, ComputeEvent["FORWARD"] is word, word in ComputeEvent, list(ComputeEvent.__members__), word is ComputeEvent.FORWARD)
print(json.dumps({"a": word}), pickle.loads(pickle.dumps(word)) is word, copy.deepcopy(word) is word, {word: 1}[ComputeEvent.FORWARD], hash(word) == hash(ComputeEvent.FORWARD))
if sys.version_info >= (3, 11):
    print(isinstance(word, enum.StrEnum))
for wrong in (lambda: ComputeEvent("none"), lambda: ComputeEvent["NONE"], lambda: ComputeEvent.NONE, lambda: setattr(ComputeEvent, "FORWARD", 1)):
    try:
        print(wrong())
    except Exception as e:
        print(type(e).__name__)
for kind in (TagType, TagDType):
    print([(m.name, m.value, int(m), m == m.value) for m in kind], issubclass(kind, enum.Enum))
print(TagValue("5", TagDType.INT).value(), TagValue(5).value(), TagValue(5, TagDType.FLOAT, TagType.VALUE).value(), EntityRole.INPUT == 1)
for node in (DFTracerAI(cat=ProfileCategory.COMPUTE, name=ComputeEvent.STEP), DFTracerAI(cat="own"), DFTracerAI(cat=ProfileCategory.COMM)):
    with node:
        print(node.cat == node.cat, str(node.cat), str(node.name))
for category in ProfileCategory:
    with getattr(ai, category):
        pass
log.finalize()
print("done")
