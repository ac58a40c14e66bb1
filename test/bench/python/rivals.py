"""Measures the time that telemetry adds to a training step, for trainspan and for other tools:

    tools/bench-python

One job trains a small model without a tool and with each of the tools, configured as its
documentation says. All jobs run at the same time and alternate every few steps, so that other
load on the machine affects them alike. Times are CPU times of all threads of the training
process. The difference to the job without a tool is the median over the rounds, with a 95 %
bootstrap interval. The interpreter needs PyTorch 2.5 or later. The tools are installed once,
from PyPI, into $XDG_CACHE_HOME/trainspan/rivals; for a tool that cannot be installed the reason
is printed. TRAINSPAN is the path of the measured command.
"""

import contextlib
import glob
import gzip
import os
import random
import re
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Client, Listener

ROUNDS, STEPS, KILLED = int(os.environ.get("ROUNDS", 40)), {"1 ms": 60, "20 ms": 5}, {"1 ms": 500, "20 ms": 50}
SIZES = {"1 ms": (180, 3, 8), "20 ms": (540, 3, 16)}  # width, layers, batch

# The packages that each tool needs in addition to PyTorch, numpy and their dependencies.
PINS = {
    "TraceML 0.5": "traceml-ai==0.5.0 msgspec==0.22.0 nvidia-ml-py==13.615.71",
    "one-logger 2.3.1": "nv-one-logger-core==2.3.1 nv-one-logger-training-telemetry==2.3.1 overrides==7.7.0 pydantic==2.14.3 pydantic-core==2.50.4 "
    "annotated-types==0.8.0 typing-inspection==0.4.5 StrEnum==0.4.15 typing-extensions==4.16.0 toml==0.10.2",
    "DFTracer 2.2": "dftracer==2.2.0 pydftracer==2.0.6 dftracer-utils==0.0.14",
    "OpenTelemetry 1.45": "opentelemetry-sdk==1.45.2 opentelemetry-api==1.45.2 opentelemetry-semantic-conventions==0.66b2 typing-extensions==4.16.0",
}


# The job. Each tool is a class whose methods wrap a loader, the parts of a step and the step, and end the recording.


class Tool:
    """The job without a tool, and the base class of the tools."""

    def batches(self, loader):
        return loader

    def part(self, name):
        return contextlib.nullcontext()

    def step(self, model):
        return contextlib.nullcontext()

    def end(self):
        pass

    @staticmethod
    def steps(folder):
        """Returns the number of recorded steps."""
        return 0


class Trainspan(Tool):
    """Trainspan's hooks; the program is unchanged."""

    @staticmethod
    def steps(folder):
        return lines(folder, "*.pfw*", '"name":"train.iteration"')


class TraceML(Tool):
    def __init__(self, folder):
        import traceml_ai

        traceml_ai.init(mode="auto")
        self.step = traceml_ai.trace_step

    @staticmethod
    def steps(folder):
        most = 0
        for path in glob.glob(folder + "/**/*", recursive=True):
            with open(path, "rb") if os.path.isfile(path) else contextlib.nullcontext() as f:
                if f is None or f.read(15) != b"SQLite format 3":
                    continue
            with contextlib.closing(sqlite3.connect(path)) as db:
                for (table,) in db.execute("select name from sqlite_master where type = 'table'").fetchall():
                    if "step" in [c[1] for c in db.execute("pragma table_info('%s')" % table)]:
                        most = max(most, db.execute("select count(distinct step) from '%s' where step is not null" % table).fetchone()[0])
        return most


class OneLogger(Tool):
    def __init__(self, folder):
        import pathlib

        from nv_one_logger.api.config import OneLoggerConfig
        from nv_one_logger.recorder.default_recorder import ExportCustomizationMode
        from nv_one_logger.exporter.file_exporter import FileExporter
        from nv_one_logger.training_telemetry.api import callbacks, context
        from nv_one_logger.training_telemetry.api.config import TrainingTelemetryConfig
        from nv_one_logger.training_telemetry.api.training_telemetry_provider import TrainingTelemetryProvider

        telemetry = TrainingTelemetryConfig(perf_tag_or_fn="p", global_batch_size_or_fn=8)
        config = OneLoggerConfig(application_name="job", session_tag_or_fn="s", world_size_or_fn=1, telemetry_config=telemetry)
        provider = TrainingTelemetryProvider.instance().with_base_config(config).with_exporter(FileExporter(pathlib.Path(folder, "one_logger.json")))
        provider.with_export_customization(ExportCustomizationMode.BLACKLIST_SPANS, ["none"]).configure_provider()  # iterations too
        callbacks.on_app_start()
        callbacks.on_train_start(train_iterations_start=0)
        self.callbacks, self.iteration = callbacks, context.training_iteration

    def step(self, model):
        return self.iteration()

    def end(self):
        self.callbacks.on_train_end()
        self.callbacks.on_app_end()

    @staticmethod
    def steps(folder):
        return lines(folder, "one_logger.json", '"type":"(complete|stop)".*"name":"training_single_iteration"')


class DFTracer(Tool):
    def __init__(self, folder):
        from dftracer.python import ai, dftracer

        self.log, self.ai = dftracer.initialize_log(os.path.join(folder, "trace"), None, -1), ai
        self.parts = {"forward": ai.compute.forward, "backward": ai.compute.backward, "step": ai.compute.step}

    def batches(self, loader):
        return self.ai.dataloader.fetch.iter(loader)

    def part(self, name):
        return self.parts[name]

    def end(self):
        self.log.finalize()

    @staticmethod
    def steps(folder):
        return lines(folder, "trace*", '"name":"backward"')


class OpenTelemetry(Tool):
    def __init__(self, folder):
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

        self.provider = TracerProvider()
        out = open(os.path.join(folder, "spans.json"), "w")
        self.provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter(out=out, formatter=lambda span: span.to_json(indent=None) + "\n")))
        self.span = self.provider.get_tracer("job").start_as_current_span

    def batches(self, loader):
        it = iter(loader)
        while True:
            with self.span("fetch"):
                batch = next(it)
            yield batch

    def part(self, name):
        return self.span(name)

    def step(self, model):
        return self.span("iteration")

    def end(self):
        self.provider.shutdown()

    @staticmethod
    def steps(folder):
        return lines(folder, "spans.json", '"name": "iteration"')


class Profiler(Tool):
    def __init__(self, folder):
        import torch.profiler

        # With this schedule all steps are recorded.
        schedule = torch.profiler.schedule(wait=0, warmup=1, active=1 << 30)
        self.profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule)
        self.profile.__enter__()
        self.path = os.path.join(folder, "profile.json")

    @contextlib.contextmanager
    def step(self, model):
        yield
        self.profile.step()

    def end(self):
        self.profile.__exit__(None, None, None)
        self.profile.export_chrome_trace(self.path)

    @staticmethod
    def steps(folder):
        return lines(folder, "profile.json", "ProfilerStep#")


TOOLS = {
    "bare": Tool, "trainspan": Trainspan, "TraceML 0.5": TraceML, "one-logger 2.3.1": OneLogger, "DFTracer 2.2": DFTracer,
    "OpenTelemetry 1.45": OpenTelemetry, "torch.profiler": Profiler,
}  # fmt: skip


def lines(folder, pattern, word):
    """Returns the number of matching lines in files. An incomplete last line is not counted."""
    count, word = 0, re.compile(word)
    for path in glob.glob(os.path.join(folder, "**", pattern), recursive=True):
        with (gzip.open if path.endswith(".gz") else open)(path, "rt", errors="replace") as f, contextlib.suppress(EOFError):
            for line in f:
                count += word.search(line) is not None
    return count


def train(tool, size):
    import torch
    import torch.nn as nn
    from torch.utils.data import DataLoader, Dataset

    torch.set_num_threads(1)
    width, layers, batch = SIZES[size]
    row = torch.randn(width)

    class Rows(Dataset):
        def __len__(self):
            return 1 << 30

        def __getitem__(self, i):
            return row

    model = nn.Sequential(*[nn.Linear(width, width) for _ in range(layers)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for x in tool.batches(DataLoader(Rows(), batch_size=batch, sampler=iter(int, 1))):
        with tool.step(model):
            optimizer.zero_grad()
            with tool.part("forward"):
                loss = model(x).square().mean()
            with tool.part("backward"):
                loss.backward()
            with tool.part("step"):
                optimizer.step()
        yield


def job(name, size, folder, address):
    """Executes the numbers that the other side of the connection sends: n steps, or for -n as many
    steps before it is killed; 0 ends the job."""
    kind = TOOLS[name]
    tool = kind(folder) if "__init__" in vars(kind) else kind()
    steps = train(tool, size)
    with Client(address) as side:
        while True:
            count = side.recv()
            at = time.process_time()
            for _ in range(abs(count)):
                next(steps)
            if count < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            if not count:
                break
            with open("/proc/self/smaps_rollup") as f:
                pss = next(int(line.split()[1]) for line in f if line.startswith("Pss:"))
            side.send(((time.process_time() - at) / count * 1e6, pss))
    tool.end()


# The side that controls the jobs.


def install(name):
    """Installs a tool if necessary, and returns its folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(cache, "trainspan", "rivals", "%s-%d.%d" % (name.replace(" ", "-"), *sys.version_info[:2]))
    made = os.path.join(folder, ".made-from")
    if not os.path.exists(made) or open(made).read() != PINS[name]:
        shutil.rmtree(folder, ignore_errors=True)
        how = "-m pip install -q --no-deps --no-compile --disable-pip-version-check --root-user-action=ignore --break-system-packages --target".split()
        done = subprocess.run([sys.executable, *how, folder, *PINS[name].split()], capture_output=True, text=True)
        if done.returncode:
            sys.exit((done.stderr.strip() or "pip failed").splitlines()[-1])
        with open(made, "w") as f:
            f.write(PINS[name])
    return folder


def until(condition, seconds=60):
    """Waits for a condition, at most the given seconds."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)


class Job:
    """A process that trains a number of steps on request."""

    def __init__(self, name, size):
        self.name, self.folder = name, tempfile.mkdtemp(prefix="rivals-")
        path = [install(name)] if name in PINS else []
        address = os.path.join(self.folder, "turns")
        out = os.path.join(self.folder, "out")
        os.mkdir(out)
        args = [os.path.abspath(__file__), "--job", name, size, out, address]
        command = [sys.executable, *args]
        if name == "trainspan":
            command = [os.environ.get("TRAINSPAN", "trainspan"), "run", "--quiet", "--dir", out, "--", *command]
        env = dict(os.environ, PYTHONPATH=os.pathsep.join(path), DFTRACER_ENABLE="1" if name.startswith("DFTracer") else "", OMP_NUM_THREADS="1")
        self.out, self.beside = out, None
        if name.startswith("TraceML"):  # its launcher needs a PyTorch with libuv, which Debian's lacks
            self.beside = subprocess.Popen([sys.executable, path[0] + "/bin/traceml", "serve", "--logs-dir", out], env=env, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            until(lambda: glob.glob(out + "/**/telemetry", recursive=True))
        with Listener(address) as listener:
            self.log = open(os.path.join(self.folder, "log"), "w+")
            self.process = subprocess.Popen(command, env=env, cwd=self.folder, stdout=self.log, stderr=subprocess.STDOUT)
            listener._listener._socket.settimeout(120)
            try:
                self.side = listener.accept()
            except TimeoutError:
                self.process.kill()
                self.log.seek(0)
                raise SystemExit((self.log.read().strip() or "it did not begin").splitlines()[-1]) from None

    def turn(self, steps):
        self.side.send(steps)
        return self.side.recv()

    def end(self, count=0):
        """Ends the job. Returns its bytes on disk and the number of recorded steps."""
        self.side.send(count)
        with contextlib.suppress(EOFError):
            self.side.recv()
        self.process.wait(300)
        if self.beside:
            self.beside.send_signal(signal.SIGINT)
            self.beside.wait(300)
        size = sum(os.path.getsize(p) for p in glob.glob(self.out + "/**/*", recursive=True) if os.path.isfile(p))
        try:
            return size, TOOLS[self.name].steps(self.out)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


def measure(size):
    jobs, why = {}, {}
    for name in TOOLS:
        try:
            jobs[name] = Job(name, size)
        except SystemExit as e:
            why[name] = e
    count = STEPS[size]
    times, memory = {name: [] for name in jobs}, {}
    for i in range(-2, ROUNDS):
        for name in list(jobs)[:: 1 if i % 2 else -1]:
            took, memory[name] = jobs[name].turn(count)
            if i >= 0:
                times[name].append(took)
    done = count * (ROUNDS + 2)
    rng = random.Random(1)
    print("\n| a step of %s: %.0f us | added us | 95 %% | MB of memory | bytes on disk a step | steps on record | after kill -9, of %d |" % (size, statistics.median(times["bare"]), KILLED[size]))
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in list(TOOLS)[1:]:
        if name in why:
            print("| %s | cannot run: %s |||||| |" % (name, why[name]))
            continue
        apart = [a - b for a, b in zip(times[name], times["bare"])]
        medians = sorted(statistics.median(rng.choices(apart, k=len(apart))) for _ in range(1000))
        bytes_, steps = jobs[name].end()
        killed = Job(name, size)
        _, left = killed.end(-KILLED[size])
        print(
            "| %s | %+.1f | %+.1f to %+.1f | %+.1f | %.0f | %d of %d | %d |"
            % (name, statistics.median(apart), medians[25], medians[974], (memory[name] - memory["bare"]) / 1024, bytes_ / done, steps, done, left),
            flush=True,
        )
    jobs["bare"].end()


def main():
    if sys.argv[1:2] == ["--job"]:
        return job(*sys.argv[2:])
    for size in sys.argv[1:] or SIZES:
        measure(size)


if __name__ == "__main__":
    main()
