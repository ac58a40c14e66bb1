"""Measures an iteration that a program records with one-logger's API, in nanoseconds of CPU time of
all threads: with the two callbacks, with the context manager, with the context manager and an
attribute, and with a timed_span.

    python3 bench/onelogger.py PREFIX [file]

PREFIX is the prefix of the imports: trainspan.onelogger, or nv_one_logger for the original. With
`file` the program has a FileExporter, like most programs."""

import enum
import importlib
import logging
import os
import sys
import tempfile
import time

PREFIX, FILE, REPEATS = sys.argv[1], sys.argv[2:] == ["file"], 20

if PREFIX.startswith("trainspan"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))


def module(name):
    return importlib.import_module(PREFIX + "." + name)


def best(body, turns):
    least = float("inf")
    for _ in range(REPEATS):
        start = time.process_time_ns()
        for _ in range(turns):
            body()
        settle()
        least = min(least, time.process_time_ns() - start)
    return least / turns


def settle():
    """Waits until exporters have received all records: their work is part of the cost."""
    outlet = getattr(provider.recorder, "_outlet", None)
    if outlet is not None:
        outlet.wait()


logging.disable(logging.CRITICAL)
on, context = module("training_telemetry.api.callbacks"), module("training_telemetry.api.context")
config = module("api.config").OneLoggerConfig(
    application_name="bench", session_tag_or_fn="s", world_size_or_fn=1,
    telemetry_config=module("training_telemetry.api.config").TrainingTelemetryConfig(perf_tag_or_fn="p", global_batch_size_or_fn=32),
)  # fmt: skip
provider = module("training_telemetry.api.training_telemetry_provider").TrainingTelemetryProvider.instance()
provider.with_base_config(config)
folder = tempfile.TemporaryDirectory()
if FILE:
    provider.with_exporter(module("exporter.file_exporter").FileExporter(os.path.join(folder.name, "telemetry.jsonl")))
provider.configure_provider()
on.on_app_start()
on.on_train_start(train_iterations_start=0)
timed_span = module("api.timed_span").timed_span
begin, end, iteration = on.on_training_single_iteration_start, on.on_training_single_iteration_end, context.training_iteration


def pair():
    begin()
    end()


def scope():
    with iteration():
        pass


Own = enum.Enum("Own", {"PREPROCESS": "preprocess"})  # the original does not accept text on Python 3.11


def attribute():
    with iteration() as span:
        span.add_attribute("tokens", 4096)


def timed():
    with timed_span(Own.PREPROCESS):
        pass


for name, body, turns in (("pair", pair, 1000), ("with", scope, 500), ("attribute", attribute, 500), ("timed_span", timed, 500)):
    print("%s %.0f" % (name, best(body, turns)))
