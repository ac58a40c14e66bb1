"""Prints what DFAnalyzer (PyPI's dftracer-analyzer) makes of the traces in a folder with
its preset for AI logging: for each layer the number of its events and their time in
seconds, summed over lanes, as JSON.

    python3 dfanalyzer.py FOLDER WORKDIR
"""

import json
import os
import sys

os.environ.setdefault("USER", "me")  # its configuration asks for it
from dftracer.analyzer import init_with_hydra  # noqa: E402

if __name__ == "__main__":
    folder, work = sys.argv[1:]
    analyzer = init_with_hydra(
        ["analyzer/preset=dlio", "trace_path=" + folder, "view_types=[proc_name]", "hydra.run.dir=" + work, "analyzer.checkpoint=false"]
        + ["cluster.n_workers=1", "cluster.host=127.0.0.1", "cluster.local_directory=" + work]
    )
    result = analyzer.analyze_trace()
    view = result.flat_views[("proc_name",)]
    layers = {}
    for layer in result.layers:
        if layer + "_count_sum" in view:
            layers[layer] = {"count": int(view[layer + "_count_sum"].sum()), "time": float(view[layer + "_time_sum"].sum())}
    print("layers " + json.dumps(layers))
    analyzer.shutdown()
