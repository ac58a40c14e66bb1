"""Runs a scenario through the Python API of a library and writes the result.

    python3 replay.py PREFIX SCENARIO FOLDER

PREFIX is the prefix of the imports: trainspan.onelogger, or nv_one_logger for the original.
It writes result.json and telemetry.jsonl to FOLDER, in the format of the recorded scenarios.
The clock is fixed, and all steps run in order, even if one raises."""

import contextlib
import functools
import importlib
import json
import logging
import os
import socket
import sys
from enum import Enum
from pathlib import Path

PREFIX, SCENARIO, FOLDER = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])


@functools.lru_cache(None)
def module(name):
    return importlib.import_module(PREFIX + "." + name)


class Clock:
    """Replaces the module time in the library. Both clocks are fixed."""

    def __init__(self, held):
        self.base, self.perf = held["epoch_msec"], held.get("perf_base_sec", 1000.0)
        self.now = self.base

    def time(self):
        return self.now / 1000.0

    def perf_counter(self):
        return self.perf + (self.now - self.base) / 1000.0


class Text(str, Enum):
    """An enum of texts."""

    __str__, __format__ = str.__str__, str.__format__


own = {}


def enum_name(text):
    """Returns a member of an enum of texts, which programs use as names of spans."""
    for kind in (module("training_telemetry.api.spans").StandardTrainingJobSpanName, module("core.span").StandardSpanName):
        for member in kind:
            if member.value == text:
                return member
    if text not in own:
        own[text] = Text("Own", {"ONE": text}).ONE
    return own[text]


def decoded(pairs):
    """Returns the value that a JSON object encodes, or the object itself."""
    value = dict(pairs)
    if len(value) == 1:
        (key, inner), = value.items()
        if key == "$fn":
            return lambda: inner
        if key == "$float":
            return float(inner)
        if key == "$raw":
            return Raw(inner)
    return value


class Raw(str):
    """The name of a span as plain text."""


def span_name(given):
    return str(given) if isinstance(given, Raw) else enum_name(given)


def attributes(values):
    return None if values is None else module("core.attributes").Attributes(values)


def exception(given):
    """Returns an exception of the program that was raised and caught."""
    if given is None:
        return None
    kind = getattr(__builtins__, given["type"], None) or type(given["type"], (Exception,), {})
    try:
        raise kind(given["message"]) if given.get("message") else kind()
    except Exception as e:
        return e


class Run:
    def __init__(self, scenario):
        self.scenario, self.saved, self.contexts, self.exporters = scenario, {}, {}, []
        self.clock = Clock(scenario["clock"])
        module("core.time").time = self.clock
        self.path = FOLDER / "telemetry.jsonl"
        self.steps = []
        identity = scenario.get("identity", {})
        socket.gethostname = lambda: identity.get("node_name", "host")
        os.getpid = lambda: identity.get("pid", 1)
        os.environ.update(scenario.get("env", {}))
        self.provider = module("training_telemetry.api.training_telemetry_provider").TrainingTelemetryProvider.instance()

    def run(self):
        given = self.scenario.get("provider")
        if given:
            calls = [("with_base_config", {"config": given["base_config"]})]
            calls += [("with_config_override", {"config": o}) for o in given.get("overrides", ())]
            calls += [("with_exporter", e) for e in given.get("exporters", ())]
            if given.get("export_customization"):
                calls.append(("with_export_customization", given["export_customization"]))
            calls.append(("configure_provider", {}))
            for i, (name, args) in enumerate(calls):
                self.step("provider[%d]" % i, {"call": "provider." + name, "args": args})
        for i, step in enumerate(self.scenario["steps"]):
            self.clock.now = step.get("now_msec", self.clock.now)
            self.step(i, step)

    def step(self, number, step):
        said = {"step": number, "call": step["call"], "outcome": "ok", "returned": None}
        try:
            value = self.call(step["call"], step.get("args") or {})
            if step.get("save_as"):
                self.saved["$" + step["save_as"]] = value
            if isinstance(value, module("core.span").Span):
                above = value.parent_span
                said["returned"] = {"span": str(value.name), "active": value.active, "parent": above and str(above.name)}
        except Exception as e:
            said.update(outcome="raised", error_type=type(e).__name__, error_message=str(e))
        self.drain()
        said["file_lines_after"] = len(self.path.read_text().splitlines()) if self.path.exists() else 0
        self.steps.append(said)

    def recorder(self):
        return module("api.one_logger_provider").OneLoggerProvider.instance()._recorder

    def drain(self):
        """Waits for exporters that are called on a separate thread."""
        outlet = getattr(self.recorder(), "_outlet", None)
        if outlet is not None:
            outlet.wait()

    def call(self, name, args):
        kind, _, what = name.partition(".")
        if kind == "provider":
            return self.provide(what, args)
        if kind == "recorder":
            return self.record(what, args)
        if kind == "span":
            span = self.saved.get(args["span"])
            if what == "add_attribute":
                return span.add_attribute(args["name"], args["value"])
            return span.add_attributes(attributes(args["attributes"]))
        if kind == "ctx":
            return self.context(what, args)
        return getattr(module("training_telemetry.api.callbacks"), name)(**args)

    def provide(self, what, args):
        config, provider = args.get("config"), self.provider
        if what == "with_base_config":
            config = dict(config)
            if config.get("telemetry_config") is not None:
                config["telemetry_config"] = module("training_telemetry.api.config").TrainingTelemetryConfig(**config["telemetry_config"])
            provider.with_base_config(module("api.config").OneLoggerConfig(**config))
        elif what == "with_config_override":
            provider.with_config_override(config)
        elif what == "with_exporter":
            provider.with_exporter(self.exporter(args))
        elif what == "with_export_customization":
            mode = module("recorder.default_recorder").ExportCustomizationMode[args["mode"]]
            names = args.get("span_name_filter")
            provider.with_export_customization(mode, names if names is None else [span_name(n) for n in names])
        elif what == "set_training_telemetry_config":
            provider.set_training_telemetry_config(module("training_telemetry.api.config").TrainingTelemetryConfig(**config))
        else:
            getattr(provider, what)()

    def exporter(self, args):
        if args["type"] == "file":
            exporter = module("exporter.file_exporter").FileExporter(self.path)
        else:
            exporter = scripted(args)
        self.exporters.append(exporter)
        return exporter

    def record(self, what, args):
        at = {k: args.get(k) for k in ("start_time_msec", "stop_time_msec", "timestamp_msec")}
        stamp = module("core.time").TracingTimestamp
        at = {k: stamp.for_timestamp(v / 1000.0) if v is not None else None for k, v in at.items()}
        recorder, span = self.provider.recorder, self.saved.get(args.get("span"))
        if what == "start":
            return recorder.start(span_name(args["name"]), attributes(args.get("attributes")), attributes(args.get("start_event_attributes")),
                                  at["start_time_msec"], self.saved.get(args.get("parent")))  # fmt: skip
        if what == "stop":
            return recorder.stop(span, attributes(args.get("stop_event_attributes")), at["stop_time_msec"])
        if what == "event":
            event = module("core.event").Event.create(args["name"], attributes(args.get("attributes")), at["timestamp_msec"])
            return recorder.event(span, event)
        if what == "error":
            return recorder.error(span, args["message"], exception(args.get("exception")))
        if what == "telemetry_data_error":
            return recorder.telemetry_data_error(args["message"], attributes(args.get("attributes")))
        return recorder.close()

    def context(self, what, args):
        if what == "enter":
            kwargs = dict(args.get("kwargs") or {})
            if args["context"] == "timed_span":
                make = module("api.timed_span").timed_span
                kwargs["name"] = span_name(kwargs["name"])
                for key in ("span_attributes", "start_event_attributes"):
                    if key in kwargs:
                        kwargs[key] = attributes(kwargs[key])
            else:
                make = getattr(module("training_telemetry.api.context"), args["context"])
            manager = make(**kwargs)
            span = manager.__enter__()
            self.contexts[args["cm"]] = manager
            return span
        manager, error = self.contexts.pop(args["cm"]), exception(args.get("exception"))
        try:
            manager.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)
        except Exception as e:
            if e is not error:
                raise
        return None

    def states(self):
        recorder = self.recorder()
        if recorder is None:
            return None
        outlet = getattr(recorder, "_outlet", None)
        if outlet is not None:
            states = outlet.states
        else:
            states = [recorder._exporter_state[e] for e in getattr(recorder, "_exporters", ())]
        fields = ("num_errors", "any_data_exported_successfully", "force_disabled", "telemetry_data_error_reported")
        return [dict({f: getattr(s, f) for f in fields}, exporter="") for s in states]


def scripted(args):
    """Returns an exporter that fails on request."""
    fail, calls = args.get("fail", {}), {}

    def method(name):
        def call(self, *_):
            calls[name] = calls.get(name, 0) + 1
            if fail.get(name) == "always" or calls[name] in (fail.get(name) or ()):
                raise RuntimeError("scripted failure of %s" % name)

        return call

    names = "initialize export_start export_stop export_event export_error export_telemetry_data_error close".split()
    return type("Scripted", (module("exporter.exporter").Exporter,), {n: method(n) for n in names})()


def main():
    logging.disable(logging.CRITICAL)
    FOLDER.mkdir(parents=True, exist_ok=True)
    scenario = json.loads(SCENARIO.read_text(), object_pairs_hook=decoded)
    run = Run(scenario)
    with contextlib.suppress(KeyboardInterrupt):
        run.run()
    result = {"scenario": scenario.get("name"), "steps": run.steps, "final": {"exporter_states": run.states() if run.exporters else None}}
    (FOLDER / "result.json").write_text(json.dumps(result, indent=1))


main()
