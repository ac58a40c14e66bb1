"""Tests of trainspan.onelogger: its API, its checks, its exporters. Package telemetry tests its
records by comparison with recorded runs."""

import collections
import contextlib
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import unittest
from decimal import Decimal
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
os.environ["DFTRACER_ENABLE"] = "0"  # the tests need no ring buffer

from trainspan import onelogger as log  # noqa: E402
from trainspan.onelogger import _guard  # noqa: E402
from trainspan.onelogger.training_telemetry.api import training_recorder  # noqa: E402

logging.getLogger("trainspan.onelogger").addHandler(logging.NullHandler())
logging.getLogger("trainspan.onelogger").propagate = False


class Kept(log.BaseExporter):
    """Stores its calls, and fails on request."""

    def __init__(self, fail=()):
        super().__init__()
        self.calls, self.threads, self.fail, self.errors, self.seen = [], set(), fail, [], {}

    def _keep(self, what, name):
        self.threads.add(threading.current_thread())
        self.calls.append((what, str(name)))
        if what in self.fail:
            raise RuntimeError("no space")

    def export_start(self, span):
        self.seen.setdefault(span.name_str, []).append((span.active, span.attributes.to_json(), span.parent_span and span.parent_span.name_str))
        self._keep("start", span.name)

    def export_stop(self, span):
        self.seen.setdefault(span.name_str, []).append((span.active, span.attributes.to_json(), len(span.events)))
        self._keep("stop", span.name)

    def export_event(self, event, span):
        self._keep("event", event.name)

    def export_error(self, event, span):
        self.errors.append(event)
        self._keep("error", span.name)

    def export_telemetry_data_error(self, error):
        self._keep("gap", error.error_type)

    def close(self):
        self._keep("close", "")
        super().close()


def config(training=(), **more):
    values = dict(application_name="a", session_tag_or_fn="s", world_size_or_fn=1)
    values.update(more)
    values.setdefault("telemetry_config", log.TrainingTelemetryConfig(**dict({"perf_tag_or_fn": "p", "global_batch_size_or_fn": 4}, **dict(training))))
    return log.OneLoggerConfig(**values)


def program(text, **env):
    """Runs a program and returns its output."""
    env = dict({k: v for k, v in os.environ.items() if k != "TRAINSPAN_RING"}, PYTHONPATH=str(HERE.parent), DFTRACER_ENABLE="0", **env)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-c", text], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder, timeout=60)
        return done.returncode, done.stdout.decode()


class Case(unittest.TestCase):
    def setUp(self):
        for kind in (log.OneLoggerProvider, log.TrainingTelemetryProvider):
            if "_one" in vars(kind):
                del kind._one
        _guard.plain = None
        self.provider = log.TrainingTelemetryProvider.instance()

    def start(self, *exporters, mode=None, names=None, **more):
        self.provider.with_base_config(config(**more))
        for exporter in exporters:
            self.provider.with_exporter(exporter)
        if mode:
            self.provider.with_export_customization(mode, names)
        self.provider.configure_provider()
        return self.provider.recorder

    def refused(self, text, f, *args, **kwargs):
        with self.assertRaises(Exception) as caught:
            f(*args, **kwargs)
        self.assertIn(text, str(caught.exception))
        return caught.exception


class Shape(Case):
    def test_names_and_signatures(self):
        folder = HERE.parent / "testdata" / "onelogger"
        done = subprocess.run([sys.executable, str(folder / "names.py"), "trainspan.onelogger"], stdout=subprocess.PIPE, check=True,
                              env=dict(os.environ, PYTHONPATH=str(HERE.parent)))  # fmt: skip
        have = set(done.stdout.decode().splitlines())
        have |= {line.replace("event=None)", "event)") for line in have}  # an event as the sole argument belongs to the current span
        missing = [line for line in (folder / "names.txt").read_text().splitlines() if line not in have]
        self.assertEqual(missing, [])

    def test_older_names(self):
        from trainspan.onelogger.exporter.export_config_manager import ExportCustomizationMode  # noqa: F401
        from trainspan.onelogger.training_telemetry.api.training_telemetry_provider import TrainingTelemetryBuilder

        flat = log.TrainingTelemetryConfig(application_name="a", world_size_or_fn=5, session_tag_or_fn="s", perf_tag_or_fn="p", global_batch_size_or_fn=1)
        kept = Kept()
        builder = TrainingTelemetryBuilder().with_base_telemetry_config(flat).with_exporter(kept)
        self.assertIs(builder.configure_provider(), self.provider)
        self.assertEqual((self.provider.config.world_size, self.provider.config.telemetry_config.global_batch_size), (5, 1))

    def test_the_lines_of_guides(self):
        from trainspan.onelogger.core.event import ErrorEvent

        kept = Kept()
        self.assertIs(self.provider.configure(config=config(), exporters=[kept]), self.provider)
        recorder = self.provider.recorder
        self.refused("No span to add event to", recorder.event, log.Event.create("alone"))
        with log.timed_span("own") as span:
            event = recorder.event(log.Event.create("inside", log.Attributes({"a": 1})))
            self.assertEqual((event.name, [e.name for e in span.events][-1]), ("inside", "inside"))
            try:
                raise KeyError("k")
            except KeyError as e:
                error = ErrorEvent.create("it failed", e)
        self.assertTrue(error.exception_traceback.startswith("Traceback") and error.exception_traceback.endswith("KeyError: 'k'\n"), error.exception_traceback)
        self.assertIn(__file__, error.exception_traceback)
        self.assertEqual(error.to_json()["exception_traceback"], error.exception_traceback)
        self.assertIsNone(ErrorEvent.create("no exception").exception_traceback)
        self.assertEqual(ErrorEvent.create("m", KeyError("k"), "given").exception_traceback, "given")

    def test_idioms(self):
        """The programs of idioms have the same output as with the original, which wrote the texts."""
        folder = HERE.parent / "testdata" / "onelogger" / "idioms"
        env = dict(os.environ, PYTHONPATH=str(HERE.parent))
        for program in sorted(folder.glob("*.py")):
            with self.subTest(program.stem), tempfile.TemporaryDirectory() as here:
                path = Path(here, program.name)
                path.write_text(program.read_text().replace("from nv_one_logger.", "from trainspan.onelogger."))
                done = subprocess.run([sys.executable, "-B", str(path)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=120)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(done.stdout.splitlines(), program.with_suffix(".txt").read_text().splitlines())

    def test_no_frame_in_tracebacks(self):
        def with_statement():
            with log.timed_span("a"), log.timed_span("b"):
                raise KeyError("k")

        def stack():
            with contextlib.ExitStack() as stack:
                stack.enter_context(log.timed_span("a"))
                raise KeyError("k")

        @log.timed_span("c")
        def decorated():
            raise KeyError("k")

        kept = Kept()
        recorder = self.start(kept)
        for f in (with_statement, stack, decorated):
            with self.subTest(f.__name__):
                try:
                    f()
                except KeyError as e:
                    files = {os.path.basename(frame.filename) for frame in traceback.extract_tb(e.__traceback__)}
                self.assertEqual(files - {"contextlib.py"}, {Path(__file__).name})
        recorder.close()
        self.assertEqual([("timed_span.py" in e.exception_traceback) for e in kept.errors], [False] * 4)

    def test_a_context_is_entered_again(self):
        kept = Kept()
        recorder = self.start(kept)
        context = log.timed_span("again")
        with context as outer, context as inner:
            self.assertIs(inner.parent_span, outer)
        with context:
            pass
        context.__exit__(None, None, None)  # the context was never entered
        recorder.close()
        self.assertEqual([call for call in kept.calls if call[0] == "stop"], [("stop", "again")] * 3)

    def test_every_short_name(self):
        for name in log.__all__:
            self.assertIsNotNone(getattr(log, name), name)
        self.assertRaises(AttributeError, getattr, log, "no_such_name")

    def test_alias(self):
        code, out = program("""
import sys, trainspan.onelogger, trainspan.dftracer
assert not [m for m in sys.modules if m.startswith("trainspan.onelogger.")], "the package imported its modules before their first use"
trainspan.onelogger.alias(); trainspan.onelogger.alias()
import nv_one_logger.api.config, one_logger.core.span as span
from nv_one_logger.training_telemetry.api.callbacks import on_app_start
from trainspan.onelogger import OneLoggerConfig, on_app_start as ours, Span
assert nv_one_logger.api.config.OneLoggerConfig is OneLoggerConfig and span.Span is Span and on_app_start is ours
assert span.__name__ == "trainspan.onelogger.core.span" == span.__spec__.name
try:
    import nv_one_logger.no_such_module
except ImportError as e:
    print("done")
""")
        self.assertEqual((code, out), (0, "done\n"))

    def test_alias_where_the_original_is(self):
        code, out = program("""
import os, sys
os.makedirs("nv_one_logger"); open("nv_one_logger/__init__.py", "w").close(); sys.path.insert(0, ".")
import trainspan.onelogger
try:
    trainspan.onelogger.alias()
except ImportError as e:
    print(e)
""")
        self.assertEqual((code, out), (0, "nv_one_logger is installed: uninstall it, or import from trainspan.onelogger\n"))


class Checks(Case):
    def test_configuration(self):
        for text, change in (
            ("application_name cannot be empty", {"application_name": " "}), ("application_name\n", {"application_name": 3}),
            ("world_size must be set to a positive value", {"world_size_or_fn": lambda: 0}), ("world_size_or_fn\n", {"world_size_or_fn": "many"}),
            ("custom_metadata keys must be non-empty strings", {"custom_metadata": {" ": 1}}),
            ("error_handling_strategy\n", {"error_handling_strategy": "ignore"}), ("enable_for_current_rank\n", {"enable_for_current_rank": 3}),
            ("global_batch_size must be set", {"training": {"global_batch_size_or_fn": 0}}),
            ("log_every_n_train_iterations must be set", {"training": {"log_every_n_train_iterations": 0}}),
            ("flops_per_sample must be set", {"training": {"is_log_throughput_enabled_or_fn": True}}),
            ("seq_length_or_fn\n", {"training": {"seq_length_or_fn": 1.5}}), ("save_checkpoint_strategy\n", {"training": {"save_checkpoint_strategy": "x"}}),
        ):  # fmt: skip
            self.refused(text, config, **change)
        error = self.refused("Field required", log.OneLoggerConfig, application_name="a")
        self.assertEqual((type(error).__name__, isinstance(error, ValueError)), ("ValidationError", True))
        self.assertIn("session_tag_or_fn", str(error))
        made = config(training={"global_batch_size_or_fn": "512", "unknown": 1}, world_size_or_fn=4.0)
        self.assertEqual((made.world_size, made.telemetry_config.global_batch_size), (4, 512))

    def test_values_of_other_classes(self):
        """Numbers are those of numpy, which have __float__, mappings and sequences those of OmegaConf."""

        class Number:
            def __init__(self, value):
                self.value = value

            def __float__(self):
                return float(self.value)

            def __int__(self):
                return int(self.value)

            def __eq__(self, other):
                return self.value == other

        class Tensor(Number):
            def __int__(self):
                raise RuntimeError("a Tensor with 2 elements cannot be converted to Scalar")

        class Settings(collections.UserDict):
            pass

        made = config(
            training={"global_batch_size_or_fn": Number(1 << 62), "flops_per_sample_or_fn": Decimal(10) ** 15, "seq_length_or_fn": " 42.0",
                      "perf_tag_or_fn": collections.UserList(["a", "b"]), "is_save_checkpoint_enabled_or_fn": Number(0.0)},
            custom_metadata=Settings(lr=0.1, tags=collections.UserList([1]), steps=Number(3)), enable_for_current_rank=Number(1),
        )  # fmt: skip
        training = made.telemetry_config
        self.assertEqual((training.global_batch_size, training.flops_per_sample, training.seq_length), (1 << 62, 10**15, 42))
        self.assertEqual((training.perf_tag, training.is_save_checkpoint_enabled, made.enable_for_current_rank), (["a", "b"], False, True))
        self.assertEqual(type(made.custom_metadata), dict)
        self.assertEqual((made.custom_metadata["lr"], made.custom_metadata["tags"], made.custom_metadata["steps"]), (0.1, [1], 3))
        self.provider.with_base_config(made)
        change = Settings(telemetry_config=Settings(seq_length_or_fn=7), logger_config=Settings(log_level="ERROR"))
        self.provider.with_config_override(change).with_config_override({"telemetry_config": {"micro_batch_size_or_fn": 2}}).configure_provider()
        made = self.provider.config
        self.assertEqual((made.telemetry_config.seq_length, made.telemetry_config.micro_batch_size, made.logger_config.log_level), (7, 2, "ERROR"))
        self.assertEqual(change["telemetry_config"], {"seq_length_or_fn": 7})  # it is not changed
        for text, change in (
            ("world_size_or_fn\n", {"world_size_or_fn": Number(1.5)}), ("world_size_or_fn\n", {"world_size_or_fn": "4.5"}),
            ("world_size_or_fn\n", {"world_size_or_fn": [4]}), ("world_size_or_fn\n", {"world_size_or_fn": Tensor(4)}), ("enable_for_current_rank\n", {"enable_for_current_rank": Number(0.5)}),
            ("custom_metadata\n", {"custom_metadata": [("k", 1)]}), ("custom_metadata\n", {"custom_metadata": {"k": {}}}),
            ("perf_tag_or_fn\n", {"training": {"perf_tag_or_fn": [1]}}), ("perf_tag_or_fn\n", {"training": {"perf_tag_or_fn": {"a": 1}}}),
        ):  # fmt: skip
            self.refused(text, config, **change)

    def test_a_rank_that_is_off(self):
        kept = Kept()
        self.start(kept, enable_for_current_rank=False)
        self.assertFalse(self.provider.one_logger_enabled)
        self.assertIsNone(log.on_train_start())  # the arguments are not checked
        with log.training_loop(train_iterations_start=0) as span:
            span.add_attribute("k", 1)
        self.assertEqual((kept.calls, kept.ready), ([], False))
        quiet = log.OneLoggerErrorHandlingStrategy.DISABLE_QUIETLY_AND_REPORT_METRIC_ERROR
        self.assertEqual(config(enable_for_current_rank=False).error_handling_strategy, quiet)
        self.assertEqual(config(enable_for_current_rank=False).logger_config.log_level, "CRITICAL")

    def test_functions_are_called_when_they_are_needed(self):
        calls = []

        def batch():
            calls.append("batch")
            return 4

        recorder = self.start(training={"global_batch_size_or_fn": batch, "log_every_n_train_iterations": 1})
        before = len(calls)
        log.on_app_start()
        self.assertGreater(len(calls), before)
        log.on_train_start(0)
        for _ in range(2):
            before = len(calls)
            with log.training_iteration():
                self.assertEqual(len(calls), before)
            self.assertGreater(len(calls), before)
        self.assertEqual(recorder._state.loop.samples, 8)

    def test_the_order_of_overrides(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "c.json")
            path.write_text('{"application_name": "file", "telemetry_config": {"seq_length_or_fn": 7}}')
            self.provider.with_base_config(config()).with_config_override({"application_name": "first", "session_tag_or_fn": "t"})
            self.provider.with_config_override_from_json_file(path).with_config_override({"telemetry_config": {"micro_batch_size_or_fn": 2}})
            self.refused("cannot read the configuration", self.provider.with_config_override_from_json_file, Path(folder, "none.json"))
            self.assertRaises(NotImplementedError, self.provider.with_config_override_from_config_server, "http://x")
            self.provider.configure_provider()
        made = self.provider.config
        training = made.telemetry_config
        self.assertEqual((made.application_name, made.session_tag), ("file", "t"))
        self.assertEqual((training.seq_length, training.micro_batch_size, training.global_batch_size), (7, 2, 4))
        self.refused("with_exporter can be called only before", self.provider.with_exporter, Kept())
        self.refused("once per application", self.provider.configure_provider)

    def test_errors_are_raised_with_their_line(self):
        kept = Kept()
        self.start(kept)
        log.on_app_start()
        with self.assertLogs("trainspan.onelogger", "ERROR") as logs:
            self.refused("one and only one span named training_loop", log.on_train_end)
        self.assertIn("test_onelogger.py:", logs.output[0])
        self.assertIsNotNone(log.on_train_start(0))
        log.on_app_end()
        self.assertIn(("gap", "incomplete_telemetry_data"), kept.calls)
        self.assertIsNone(log.on_train_end())  # after the end no call is an error

    def test_a_quiet_error_ends_it(self):
        kept = Kept()
        self.start(kept, error_handling_strategy="disable_quietly_and_report_metric_error")
        log.on_app_start()
        with self.assertLogs("trainspan.onelogger", "ERROR") as logs:
            self.assertIsNone(log.on_train_end())
        self.assertIn("test_onelogger.py:", logs.output[0])
        self.assertIsNone(log.on_train_start(0))
        self.assertEqual(kept.calls[-2:], [("stop", "application"), ("close", "")])
        self.assertFalse(log.OneLoggerProvider.instance().one_logger_enabled)

    def test_the_program_s_exceptions_pass(self):
        kept = Kept()
        self.start(kept, training={"log_every_n_train_iterations": 1}, mode=log.ExportCustomizationMode.EXPORT_ALL_SPANS)
        with self.assertRaises(KeyError), log.application(), log.training_loop(train_iterations_start=0):
            with log.training_iteration():
                pass
            with log.timed_span("own"):
                raise KeyError()
        self.assertEqual([(e.exception_type, e.exception_message) for e in kept.errors], [("KeyError", "")])
        state = self.provider.recorder._state
        self.assertEqual((state.done, state.loop.iterations.count), (1, 1))

    def test_a_failed_iteration_does_not_count(self):
        for exporters in ((), (Kept(),)):
            self.setUp()
            recorder = self.start(*exporters)
            log.on_app_start()
            log.on_train_start(5)
            with self.assertRaises(ValueError), log.training_iteration():
                raise ValueError("boom")
            with log.training_iteration():
                pass
            self.assertEqual(recorder._state.done, 6)
            log.on_app_end()


class Exporting(Case):
    def test_in_order_off_the_training_thread(self):
        kept = Kept()
        self.start(kept, mode=log.ExportCustomizationMode.EXPORT_ALL_SPANS)
        with log.application() as app, log.training_loop(train_iterations_start=0) as loop:
            loop.add_attribute("late", 1)
            with log.training_iteration(), log.timed_span("own", {"k": "v"}) as own:
                self.provider.recorder.event(own, log.Event.create("e", log.Attributes({"n": 1})))
        self.assertEqual([c for c in kept.calls if c[1] not in ("one_logger_initialization", "update_training_telemetry_config")], [
            ("start", "application"), ("start", "training_loop"), ("start", "training_single_iteration"), ("start", "own"), ("event", "e"),
            ("stop", "own"), ("stop", "training_single_iteration"), ("stop", "training_loop"), ("stop", "application"), ("close", ""),
        ])  # fmt: skip
        self.assertEqual(len(kept.threads), 1)
        self.assertNotIn(threading.current_thread(), kept.threads)
        first, last = kept.seen["training_loop"]
        self.assertEqual((first[0], "late" in first[1], first[2]), (True, False, "application"))
        self.assertEqual((last[0], last[1]["late"]), (False, 1))
        self.assertEqual(kept.seen["own"][1][2], 3)
        self.assertFalse(app.active)

    def test_given_up_after_five_failures(self):
        bad, good = Kept(fail=("stop",)), Kept()
        recorder = self.start(bad, good)
        log.on_app_start()
        for n in range(8):
            with log.timed_span("s%d" % n):
                pass
        log.on_app_end()
        self.assertEqual(sum(c[0] == "stop" for c in bad.calls), 5)
        self.assertEqual(sum(c[0] == "gap" for c in bad.calls), 1)
        self.assertEqual(bad.calls[-1], ("close", ""))
        self.assertEqual(sum(c[0] == "stop" for c in good.calls), 9)
        self.assertEqual([s.force_disabled for s in recorder._outlet.states], [True, False])

    def test_an_exporter_that_hangs_holds_nothing_up(self):
        go = threading.Event()

        class Slow(Kept):
            def export_start(self, span):
                go.wait(60)

        self.start(Slow())
        log.on_app_start()
        for _ in range(1000):
            with log.timed_span("s"):
                pass
        self.assertGreater(len(self.provider.recorder._outlet._queue), 1000)
        go.set()
        log.on_app_end()

    def test_exporters_get_calls_while_the_program_waits(self):
        """The thread of the exporters is woken only if it has waited for a while, and misses no
        call before or after that."""
        self.start(Kept())
        outlet, got = self.provider.recorder._outlet, []
        for pause in (0, 0.3):  # shorter and longer than it waits
            time.sleep(pause)
            for number in range(3):
                outlet.put(got.append, number)
            end = time.monotonic() + 30
            while len(got) < 3 and time.monotonic() < end:
                time.sleep(0.01)
            self.assertEqual(got, [0, 1, 2])
            del got[:]

    def test_customization(self):
        modes = log.ExportCustomizationMode
        for mode, names, want in (
            (None, None, {"application", "training_loop", "own"}),
            (modes.WHITELIST_SPANS, ["own"], {"own"}),
            (modes.BLACKLIST_SPANS, ["own", "application"], {"training_loop", "training_single_iteration"}),
            (modes.EXPORT_ALL_SPANS, None, {"application", "training_loop", "training_single_iteration", "own"}),
        ):
            self.setUp()
            kept = Kept()
            self.start(kept, mode=mode, names=names)
            with log.application(), log.training_loop(train_iterations_start=0), log.training_iteration(), log.timed_span("own"):
                pass
            self.assertEqual(set(kept.seen), want)
        self.setUp()
        self.refused("non-empty list", self.start, mode=modes.WHITELIST_SPANS, names=[])

    def test_hidden_spans_are_neither_copied_nor_queued(self):
        kept = Kept()
        recorder = self.start(kept)
        log.on_app_start()
        log.on_train_start(0)
        outlet, calls = recorder._outlet, []
        put, outlet.put = outlet.put, lambda *args: calls.append(args) or put(*args)
        for _ in range(49):
            with log.training_iteration() as span:
                span.add_attribute("tokens", 4)
        self.assertEqual((calls, span._copy), ([], None))
        log.on_training_single_iteration_start()
        log.on_training_single_iteration_end()
        self.assertEqual([args[1] for args in calls], ["export_event"])  # the metrics of 50 iterations
        with log.training_iteration() as span:
            span.add_attribute("n", 1)
            with log.timed_span("inner"):
                span.add_attribute("m", 2)
        outlet.wait()
        (_, _, above), _ = kept.seen["inner"]
        self.assertEqual(above, "training_single_iteration")
        self.assertEqual({k: span._copy.attributes[k].value for k in ("n", "m")}, {"n": 1, "m": 2})
        self.assertEqual((span._copy.active, span._copy.stop_event.name_str), (False, "span_stop"))
        log.on_app_end()

    def test_metrics_are_made_off_the_training_thread(self):
        class Reads(Kept):
            def export_event(self, event, span):
                super().export_event(event, span)
                if event.name_str == "training_metrics_update":
                    written = list(event._values().items())  # before they become attributes
                    outer.assertEqual(written, list(event.attributes.to_json().items()))
                    updates.append(event.attributes.to_json())

        outer, updates, threads, long = self, [], [], []
        kept, table = Reads(), training_recorder.sets.TrainingMetricsUpdateAttributes
        recorder = self.start(kept, training={"log_every_n_train_iterations": 2})
        log.on_app_start()
        log.on_train_start(0)

        def create(**values):
            threads.append(threading.current_thread())
            return made(**values)

        made, table.create = table.create, staticmethod(create)
        end, recorder.on_training_single_iteration_end = recorder.on_training_single_iteration_end, lambda at: long.append(at) or end(at)
        try:
            for _ in range(5):
                log.on_training_single_iteration_start()
                log.on_training_single_iteration_end()
            log.on_train_end()
            log.on_app_end()
        finally:
            table.create = made
        self.assertEqual([(u["current_iteration"], u["num_iterations"], u["num_train_samples"]) for u in updates], [(1, 2, 8), (3, 4, 16)])
        self.assertEqual((set(threads), long), (set(kept.threads), []))

    def test_other_threads_use_the_open_spans(self):
        """A thread that needs the open spans while an iteration begins or ends neither loses nor
        keeps one."""
        recorder = self.start(Kept())
        log.on_app_start()
        log.on_train_start(0)
        done, before = threading.Event(), sys.getswitchinterval()

        def save():
            while not done.is_set():
                recorder.get_active_spans_by_name("training_single_iteration")
                recorder._state.loop.iterations

        threads = [threading.Thread(target=save) for _ in range(2)]
        sys.setswitchinterval(1e-6)
        try:
            for thread in threads:
                thread.start()
            for _ in range(1000):
                log.on_training_single_iteration_start()
                log.on_training_single_iteration_end()
        finally:
            done.set()
            sys.setswitchinterval(before)
            for thread in threads:
                thread.join()
        state = recorder._state
        self.assertEqual((state.done, state.loop.iterations.count, state.loop.samples), (1000, 1000, 4000))
        self.assertEqual([span.name_str for span in recorder._open.values()], ["application", "training_loop"])
        log.on_app_end()

    def test_an_iteration_of_no_time_takes_the_fast_path(self):
        class Clock:
            now = 5.0
            time = perf_counter = lambda self: self.now

        recorder, slow = self.start(Kept()), []
        log.on_app_start()
        log.on_train_start(0)
        end = recorder.on_training_single_iteration_end
        recorder.on_training_single_iteration_end = lambda at: slow.append(at) or end(at)
        moments = training_recorder.moments
        before, clock = moments.time, Clock()
        moments.time = clock
        try:
            for seconds in (1e-3, 0, 2e-7):
                log.on_training_single_iteration_start()
                clock.now += seconds
                log.on_training_single_iteration_end()
        finally:
            moments.time = before
        window = recorder._state.loop.iterations
        self.assertEqual((slow, window.count, window.sum, window.least), ([], 3, 1000, 0))
        log.on_app_end()

    def test_files_are_never_emptied(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "below", "t.json")
            for _ in range(3):
                self.setUp()
                self.start(log.FileExporter(path))
                with log.application():
                    pass
            names = sorted(os.listdir(str(path.parent)))
            self.assertEqual(names, ["t.json", "t.run1.json", "t.run2.json"])
            for name in names:
                self.assertEqual(len((path.parent / name).read_text().splitlines()), 4)

    def test_files_without_links(self):
        """A file system may have no hard links, and another rank may rename the file at any time."""
        with tempfile.TemporaryDirectory() as folder:
            path, size = Path(folder, "t.json"), os.path.getsize
            path.write_text("kept\n")
            with mock.patch.object(os, "link", side_effect=PermissionError()), mock.patch.object(os.path, "getsize", side_effect=[FileNotFoundError(), size(str(path))]):
                exporter = log.FileExporter(path)
                exporter.initialize()
            exporter.close()
            kept = [p for p in Path(folder).iterdir() if p != path]
            self.assertEqual([p.read_text() for p in kept], ["kept\n"])

    def test_ranks_that_share_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path, together = Path(folder, "t.json"), threading.Barrier(8)

            def rank(number):
                exporter = log.FileExporter(path)
                together.wait()
                exporter.initialize()
                together.wait()
                for i in range(20):
                    exporter._write({"rank": number, "i": i, "text": "x" * 20 * number})
                exporter.close()

            for turn in range(3):
                ranks = [threading.Thread(target=rank, args=(number,)) for number in range(8)]
                for thread in ranks:
                    thread.start()
                for thread in ranks:
                    thread.join()
                found = [json.loads(line) for p in Path(folder).iterdir() for line in p.read_text().splitlines()]
                self.assertEqual(len(found), 160 * (turn + 1))

    def test_logger_exporter(self):
        class Records(logging.Handler):
            def __init__(self):
                super().__init__()
                self.texts = []

            def emit(self, record):
                self.texts.append(record.getMessage())

        logger, records = logging.Logger("own"), Records()
        logger.addHandler(records)
        self.start(log.LoggerExporter(logger))
        with log.application(), log.timed_span("own", {"text": "a | b = c", "list": [1, 2], "f": 1.5}):
            pass
        own = [log.LoggerExporter.deserialize_log(t) for t in records.texts if '"own"' in t]
        self.assertEqual(own[0]["attributes"]["text"], "a | b = c")
        self.assertEqual((own[0]["type"], own[0]["attributes"]["list"], own[0]["attributes"]["f"]), ("complete", [1, 2], 1.5))
        self.assertTrue(records.texts[0].startswith('[type="'))

    def test_exporters_of_a_file_and_the_environment(self):
        with tempfile.TemporaryDirectory() as folder:
            path, out = Path(folder, "exporters.json"), Path(folder, "o.json")
            name = "nv_one_logger.exporter.file_exporter.FileExporter"
            path.write_text(json.dumps({"exporters": [{"class_name": name, "config": {"file_path": str(out)}}, {"class_name": "no.such.Class"}]}))
            os.environ["ONE_LOGGER_EXPORTER_CONFIG_PATH"] = str(path)
            try:
                self.provider.with_base_config(config()).with_export_config()
            finally:
                del os.environ["ONE_LOGGER_EXPORTER_CONFIG_PATH"]
            self.assertEqual([type(e) for e in self.provider._exporters], [log.FileExporter])
            self.provider.with_export_config([{"class_name": name, "config": {}}], config_file_path=str(path))
            self.assertEqual(len(self.provider._exporters), 2)

    def test_log_files_are_those_that_are_named(self):
        code, out = program("""
import os
from trainspan.onelogger import *
from trainspan.onelogger.api.config import LoggerConfig
TrainingTelemetryProvider.instance().with_base_config(OneLoggerConfig(
    application_name="a", session_tag_or_fn="s", world_size_or_fn=1, logger_config=LoggerConfig(log_file_path_for_err="own.err"))).configure_provider()
try: on_app_end()
except OneLoggerError: pass
print(sorted(n for n in os.listdir(".") if "one_logger-" not in n))
""")
        self.assertEqual((code, out.splitlines()[-1]), (0, "['own.err']"))

    def test_after_a_fork(self):
        kept = Kept()
        self.start(kept)
        log.on_app_start()
        self.provider.recorder._outlet.wait()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                with log.timed_span("child"):
                    pass
                status = 0
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        log.on_app_end()
        self.assertNotIn("child", kept.seen)

    def test_what_is_left_at_the_exit_is_written(self):
        code, out = program("""
import atexit, sys
from pathlib import Path
from unittest import mock
atexit.register(lambda: print(len(Path("t.json").read_text().splitlines())))
from trainspan.onelogger import *
TrainingTelemetryProvider.instance().with_base_config(OneLoggerConfig(application_name="a", session_tag_or_fn="s", world_size_or_fn=1)) \\
    .with_exporter(FileExporter(Path("t.json"))).configure_provider()
on_app_start()
for i in range(100):
    with timed_span("s"): pass
""")
        self.assertEqual((code, out), (0, "102\n"))


class OpenTelemetry(Case):
    def test_each_span_is_one_span(self):
        try:
            from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
        except ImportError:
            self.skipTest("needs OpenTelemetry's SDK")
        from trainspan.onelogger.otel.exporter.otel_exporter import OTelExporter

        memory = InMemorySpanExporter()
        memory.shutdown = lambda: None  # the method would delete the records
        self.start(OTelExporter(memory))
        with self.assertRaises(ValueError), log.application(), log.training_loop(train_iterations_start=0):
            with log.training_iteration(), log.timed_span("own", {"list": [1, "a"], "big": 1 << 70}) as own:
                own.add_attribute("late", 1)
                raise ValueError("boom")
        spans = {s.name: s for s in memory.get_finished_spans()}
        self.assertEqual(set(spans), {"application", "training_loop", "own"})
        own = spans["own"]
        self.assertEqual(own.parent.span_id, spans["training_loop"].context.span_id)
        self.assertEqual((own.attributes["list"], own.attributes["late"], own.attributes["big"]), ("[1, 'a']", 1, str(1 << 70)))
        self.assertEqual(([e.name for e in own.events], own.status.is_ok), (["error"], False))
        self.assertEqual(own.events[0].attributes["exception_message"], "boom")


class Pieces(Case):
    def test_events_of_open_spans_are_bounded(self):
        span = log.Span.create("s")
        for _ in range(3000):
            span.add_event(log.Event.create("e"))
        self.assertEqual((len(span.events), str(span.start_event.name)), (1000, "span_start"))

    def test_json_and_back(self):
        span = log.Span.create("s", span_attributes=log.Attributes({"k": [1, "a"]}))
        span.add_attribute("n", 2)
        span.add_event(log.ErrorEvent.create("wrong", ValueError("x")))
        span.stop()
        again = log.Span.from_json(json.loads(json.dumps(span.to_json(), default=str)))
        self.assertEqual((again.attributes, again.active), (span.attributes, False))
        self.assertEqual([e.name_str for e in again.events], ["span_start", "error", "span_stop"])
        self.assertEqual(again.events[1].exception_type, "ValueError")

    def test_an_iteration_that_is_looked_at(self):
        self.start()
        log.on_app_start()
        loop = log.on_train_start(0)
        span = log.on_training_single_iteration_start()
        self.assertEqual((span.name_str, span.parent_span, span.active), ("training_single_iteration", loop, True))
        self.refused("already active", log.on_training_single_iteration_start)
        span.add_attribute("loss", 0.5)
        log.on_training_single_iteration_end()
        self.refused("not active", log.on_training_single_iteration_end)
        self.assertEqual((span.active, span.attributes["loss"].value), (False, 0.5))
        with log.training_iteration() as span:
            pass
        self.assertEqual((span.active, span.stop_event.name_str), (False, "span_stop"))
        self.assertGreaterEqual(span.duration_msec(), 0)
        with log.training_iteration() as span:
            began = span.start_event
        self.assertEqual((span.start_event, span.stop_event.name_str), (began, "span_stop"))
        log.on_app_end()


if __name__ == "__main__":
    unittest.main()
