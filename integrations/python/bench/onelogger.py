"""What an iteration costs that a program tells one-logger's API of: the nanoseconds of its
two callbacks, and of the context manager, without an exporter of the program's.

    python3 bench/onelogger.py PREFIX

PREFIX is that of the imports: trainspan.onelogger, or nv_one_logger for the original."""

import importlib
import logging
import os
import sys
import time

PREFIX, TURNS, REPEATS = sys.argv[1], 40, 200

if PREFIX.startswith("trainspan"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))


def module(name):
    return importlib.import_module(PREFIX + "." + name)


def best(body):
    least = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter_ns()
        for _ in range(TURNS):
            body()
        least = min(least, time.perf_counter_ns() - start)
    return least / TURNS


logging.disable(logging.CRITICAL)
on, context = module("training_telemetry.api.callbacks"), module("training_telemetry.api.context")
config = module("api.config").OneLoggerConfig(
    application_name="bench", session_tag_or_fn="s", world_size_or_fn=1,
    telemetry_config=module("training_telemetry.api.config").TrainingTelemetryConfig(perf_tag_or_fn="p", global_batch_size_or_fn=32),
)  # fmt: skip
provider = module("training_telemetry.api.training_telemetry_provider").TrainingTelemetryProvider.instance()
provider.with_base_config(config).configure_provider()
on.on_app_start()
on.on_train_start(train_iterations_start=0)
begin, end, iteration = on.on_training_single_iteration_start, on.on_training_single_iteration_end, context.training_iteration


def pair():
    begin()
    end()


def scope():
    with iteration():
        pass


print("pair %.0f" % best(pair))
print("with %.0f" % best(scope))
