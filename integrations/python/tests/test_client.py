"""Tests of the client alone: its cost for a program when it is off, that it never
raises, and that it does not change the behaviour of wrapped functions."""

import ast
import asyncio
import contextlib
import copy
import importlib
import inspect
import io
import json
import marshal
import os
import pickle
import random
import struct
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def run(program, rings=None, **variables):
    """Returns the output of a program in a separate interpreter."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TRAINSPAN_", "DFTRACER_"))}
    env.update(variables, PYTHONPATH=HERE)
    if rings:
        env["TRAINSPAN_RING"] = rings
    done = subprocess.run([sys.executable, "-c", program], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


class Off(unittest.TestCase):
    def test_nothing_is_changed(self):
        code, out, err = run(
            "from trainspan.dftracer.python import *\n"
            "def f(): pass\n"
            "print(ai.compute.forward(f) is f, dft_fn('c').log(f) is f)\n"
            "with ai.compute.forward as n: n.update(step=1)\n"
            "print(n is ai.compute.forward, list(ai.dataloader.fetch.iter([1, 2])))\n"
            "ai.enable(); ai.compute.start(); ai.compute.stop()\n"
            "from trainspan import _ring\n"
            "print(_ring.enabled(), _ring.start(1), _ring.end(None))\n"
        )
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out, "True True\nTrue [1, 2]\nFalse None None\n")

    def test_said_on_request(self):
        program = "from trainspan import _ring; _ring.enabled()"
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(run(program, folder, DFTRACER_ENABLE="0", TRAINSPAN_VERBOSE="1"), (0, "", ""))
            code, out, err = run(program, folder, TRAINSPAN_VERBOSE="1")
            self.assertEqual((code, out, err.count("\n")), (0, "", 1))
            self.assertIn("recording to " + folder, err)
            code, out, err = run(program, os.path.join(folder, "missing"), TRAINSPAN_VERBOSE="1")
            self.assertEqual((code, out, err.count("\n")), (0, "", 1))
            self.assertIn("nothing is recorded", err)
            self.assertEqual(run(program, "/proc/self"), (0, "", ""))


class Alone(unittest.TestCase):
    """Programs that use the client's objects in unusual ways, each in a separate process."""

    def test_no_arguments_are_told(self):
        use = "from trainspan.dftracer import ai\nwith ai.compute.forward: pass\n"
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "env"))
            for script in ("env/train.py", "python.py"):
                with open(os.path.join(folder, script), "w") as f:
                    f.write(use)
            for program, *args in (("env/train.py", "--key", "hunter2"), ("-m", "python", "hunter2"), ("-c", "'hunter2'\n" + use)):
                rings = tempfile.mkdtemp(dir=folder)
                env = dict(os.environ, TRAINSPAN_RING=rings, PYTHONPATH=HERE, DFTRACER_ENABLE="1")
                subprocess.run([sys.executable, program] + args, cwd=folder, env=env, check=True, timeout=120)
                (names,) = [n for n in os.listdir(rings) if n.endswith(".names")]
                with open(os.path.join(rings, names)) as f:
                    text = f.read()
                self.assertNotIn("hunter2", text)
                want = {"env/train.py": "train.py", "-m": "python", "-c": "DEFAULT"}[program]
                self.assertIn('"exec":"%s"' % want, text)

    def test_closed_files(self):
        program = (
            "import os\n"
            "from trainspan import _ring\n"
            "from trainspan.dftracer import ai\n"
            "with ai.compute.forward: pass\n"
            "os.closerange(3, 100)\n"
            "mine = [os.open(os.devnull, os.O_RDONLY)] + [os.memfd_create('m') for _ in range(8)]\n"
            "_ring.meta('key', 'value')\n"
            "def check():\n"
            "    return [os.fstat(f).st_size for f in mine]\n"
            "print(check(), flush=True)\n"
            "if os.fork() == 0:\n"
            "    with ai.compute.backward: pass\n"
            "    print(check(), flush=True)\n"
            "    os._exit(0)\n"
            "os.wait()\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(run(program, folder), (0, "%s\n%s\n" % ([0] * 9, [0] * 9), ""))
            names = sorted(n for n in os.listdir(folder) if n.endswith(".names"))
            self.assertEqual(len(names), 2)
            with open(os.path.join(folder, names[0])) as f:
                self.assertIn('"meta":"key"', f.read())

    def test_limited_address_space(self):
        program = (
            "import resource, os\n"
            "size = int(open('/proc/self/statm').read().split()[0]) * os.sysconf('SC_PAGE_SIZE')\n"
            "resource.setrlimit(resource.RLIMIT_AS, (size + (5 << 30),) * 2)\n"
            "from trainspan.dftracer import ai\n"
            "with ai.compute.forward: pass\n"
            "import mmap; m = mmap.mmap(-1, 4 << 30)\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(run(program, folder), (0, "", ""))
            self.assertEqual(len([n for n in os.listdir(folder) if n.endswith(".ring")]), 1)

    def test_a_ring_that_could_not_be_made(self):
        """The client removes all files of it, and makes the ring buffer in the next folder."""
        program = (
            "import os\n"
            "real = os.posix_fallocate\n"
            "def refuse(*args):\n"
            "    os.posix_fallocate = real\n"
            "    raise OSError('full')\n"
            "os.posix_fallocate = refuse\n"
            "from trainspan.dftracer import ai\n"
            "with ai.compute.forward: pass\n"
            "print(len([f for f in os.listdir('/proc/self/fd') if os.path.realpath('/proc/self/fd/' + f).endswith('.names')]))\n"
        )
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
            self.assertEqual(run(program, first + ":" + second), (0, "1\n", ""))
            self.assertEqual((os.listdir(first), len(os.listdir(second))), ([], 2))

    def test_changed_environment(self):
        program = (
            "import os\n"
            "os.environ.clear()\n"
            "from trainspan.dftracer import ai\n"
            "with ai.compute.forward: pass\n"
            "if os.fork() == 0:\n"
            "    with ai.compute.backward: pass\n"
            "    os._exit(0)\n"
            "os.wait()\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(run("import trainspan._ring\n" + program, folder), (0, "", ""))
            self.assertEqual(len([n for n in os.listdir(folder) if n.endswith(".ring")]), 2)


class WithHooks(unittest.TestCase):
    def test_many_failed_hooks(self):
        """The list of what is not recorded stays JSON, although metadata has a limit."""
        from trainspan_torch import hooks

        told = []
        ring = types.SimpleNamespace(meta=lambda key, value: told.append((key, value)), LONGEST_META=4096)
        missing = ["functions of torch.module%d (AttributeError: %s)" % (i, '"' * 160) for i in range(40)] + ["x" * 9000]
        for given in (missing, missing[::-1]):
            with mock.patch.object(hooks, "_ring", ring), mock.patch.object(hooks, "_missing", given):
                hooks._tell_missing()
        for (key, text), first in zip(told, (missing[0], "x" * 600)):
            self.assertEqual(key, "not_recorded")
            self.assertLessEqual(len(text), 4096)
            self.assertEqual(json.loads(text)[0], first)
            self.assertGreater(len(json.loads(text)), 8)


class WithDevice(unittest.TestCase):
    """The marks of a device, tested with random work on the streams of a simulated device."""

    def test_spans_of_a_stream_nest_or_follow(self):
        from trainspan_torch import device

        for seed in range(80):
            spans, truth, events = simulate(seed, together=seed >= 40)
            if seed < 40:
                self.assertLess(events, len(spans), "events are not used again: too many were made")
            for lane in {s[4] for s in spans}:
                for a in spans:
                    for b in spans:
                        if a[4] == b[4] == lane and a[1] < b[1] < a[2]:
                            self.assertLessEqual(b[2], a[2], (seed, a, b))
            for name, begin, end, args, lane, lag in spans:
                begun, done = truth[args["span"]]
                self.assertLessEqual(begin, begun + 1000, "the span begins after the measured begin, plus 1 µs")
                self.assertLessEqual(end, done + 1000)
                self.assertGreaterEqual(end, done - 250_000, "the span ends more than 250 µs, the drift of five seconds, before the measured end")
                self.assertEqual(lag, 0 if "stream" in args else max(begin - args["asked"], 1))
                self.assertEqual(args.get("stream", 0) == 0, lane == device.LANE)
            self.assertEqual(len(spans), len(truth))

    def test_a_fork_in_between(self):
        from trainspan_torch import device

        clock = Clock(1)
        d = device.Device(clock, types.SimpleNamespace(step=0, rarely=0))
        written, device._ring = [], clock.ring([])
        mark = d.begin("forward")
        d.reset()
        d.end(mark)
        clock.host += 10**9
        d.collect()
        self.assertEqual(written, [])


class Clock:
    """A host and a device with different clocks, and the functions of torch.cuda that use them."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.host = 1_700_000_000_000_000_000
        self.rate = 1 + self.random.uniform(-4e-5, 4e-5)
        self.streams, self.stream, self.made, self.asked = {}, 0, 0, 0
        self.known = [stream(n) for n in range(3)]

    def ring(self, written):
        ring = types.SimpleNamespace(now=lambda: self.host, name=lambda name, *_: name, meta=lambda *_: None)
        ring.event, ring.clock = lambda *span: written.append(span), ring.now
        return ring

    def work(self, ns):
        self.streams[self.stream] = max(self.streams.get(self.stream, 0), self.host) + ns

    def Event(self, enable_timing):
        self.made += 1
        return Mark(self)

    def is_initialized(self):
        return True

    def is_current_stream_capturing(self):
        return False

    def current_stream(self):
        return self.known[self.stream]


def stream(n):
    return types.SimpleNamespace(stream_id=n)


class Mark:
    def __init__(self, clock):
        self.clock = clock

    def record(self, stream=None):
        c = self.clock
        self.at = c.recorded = max(c.streams.get(c.stream, 0), c.host)

    def query(self):
        self.clock.asked += 1
        return self.at <= self.clock.host

    def elapsed_time(self, other):  # ms, in float32 as CUDA gives it
        assert other.at <= self.clock.host, "asked before it happened"
        return struct.unpack("f", struct.pack("f", (other.at - self.at) * self.clock.rate / 1e6))[0]


def simulate(seed, together):
    """Returns the written spans of a run, and the device's time of each. Events are read
    together or one by one."""
    from trainspan_torch import device

    c, written, truth = Clock(seed), [], {}
    chance = c.random
    device._ring = c.ring(written)
    loop = types.SimpleNamespace(step=0, rarely=0)
    d = device.Device(c, loop)
    if together:
        loop.rarely, d.current, d.chosen, d.choose = 7, True, c.current_stream, lambda now: None

    def span(name, depth):
        asked, begin = c.host, d.begin_wait(name) if name == "all_gather" else d.begin(name)
        begun = c.recorded
        for _ in range(chance.randint(0, 3)):
            c.host += int(chance.expovariate(1 / 200_000))
            c.work(int(chance.expovariate(1 / 300_000)))
            if depth < 3 and chance.random() < 0.3:
                span("wait", depth + 1)
        d.end(begin, {"span": len(truth), "asked": asked})
        truth[len(truth)] = begun, c.recorded

    for step in range(60):
        for name in "forward", "backward", "step":
            span(name, 0)
            if chance.random() < 0.5:
                c.stream = chance.randint(1, 2)
                span("all_gather", 3)
                c.stream = 0
        if chance.random() < 0.2:
            c.host = max([c.host, *c.streams.values()])  # the host asks for a loss
        loop.step += 1
        if not loop.step & loop.rarely:
            d.collect()
    c.host = max([c.host, *c.streams.values()])
    d.collect()
    if together:
        assert c.asked < 8 * 3 * 3, c.asked
    return written, truth, c.made


def by_value(value):
    """Pickles as cloudpickle does: functions that cannot be imported with their code, the
    globals that it uses, and what it encloses."""

    class Pickler(pickle.Pickler):
        def reducer_override(self, value):
            if isinstance(value, types.ModuleType):
                return importlib.import_module, (value.__name__,)
            if not isinstance(value, types.FunctionType) or imported(value):
                return NotImplemented
            used = {name: value.__globals__[name] for name in names(value.__code__) if name in value.__globals__}
            enclosed = tuple(cell.cell_contents for cell in value.__closure__ or ())
            return made, (marshal.dumps(value.__code__), used, value.__defaults__, enclosed, value.__dict__)

    def names(code):
        inner = (names(c) for c in code.co_consts if isinstance(c, types.CodeType))
        return set(code.co_names).union(*inner)

    def imported(f):
        return getattr(sys.modules.get(f.__module__), f.__qualname__, None) is f

    out = io.BytesIO()
    Pickler(out).dump(value)
    return out.getvalue()


def made(code, used, defaults, enclosed, attributes):
    f = types.FunctionType(marshal.loads(code), dict(used, __builtins__=__builtins__), "f", defaults, tuple(map(types.CellType, enclosed)))
    f.__dict__.update(attributes)
    return f


class Syntax(unittest.TestCase):
    def test_of_the_oldest_version(self):
        for folder, _, files in os.walk(HERE):
            for name in files:
                if name.endswith(".py") and os.path.basename(folder).startswith("trainspan"):
                    with open(os.path.join(folder, name), encoding="utf-8") as f:
                        ast.parse(f.read(), name, feature_version=(3, 8))


class On(unittest.TestCase):
    """The client in this process, with a ring buffer."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        os.environ["TRAINSPAN_RING"] = cls.folder.name
        os.environ.pop("DFTRACER_ENABLE", None)
        sys.path.insert(0, HERE)
        from trainspan import _ring, dftracer

        cls.ring, cls.dft = _ring, dftracer
        assert _ring.enabled(), "the client was imported before, without a ring: run this file in a process of its own, -p test_client.py"

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_nothing_raises(self):
        r, bad = self.ring, object()
        for f, args in (
            (r.start, (bad,)), (r.end, (bad,)), (r.end, (5, bad)), (r.drop, (bad,)), (r.inside, (bad,)), (r.event, (bad, bad, bad)),
            (r.point, (bad,)), (r.position, (bad, bad)), (r.meta, (bad, bad)), (r.call, (bad, bad)), (r.name, (bad, bad)), (r.stop, (bad,)),
            (r.stop, (1,)), (r.switch, (bad, bad)), (r.counted, (bad, bad, bad, bad)), (r.mark, (bad, bad)), (r.name, ([], {})),
        ):  # fmt: skip
            with self.subTest(f=f.__name__, args=args):
                f(*args)
        token = r.start(r.name("x", "test"))
        r.end(token, {"a": bad, 5: float("inf"), "long": "x" * 100000, "nested": {"k": [1]}})
        r.end(token)

    def test_wrapped_functions_keep_their_ways(self):
        forward = self.dft.ai.compute.forward

        @forward
        def f(a, b=2, *c, d, **e):
            """Doc."""
            return a, b, c, d, e

        self.assertEqual(f(1, d=4, z=5), (1, 2, (), 4, {"z": 5}))
        self.assertEqual((f.__name__, f.__doc__, str(inspect.signature(f))), ("f", "Doc.", "(a, b=2, *c, d, **e)"))
        self.assertEqual(f.__trainspan__, forward._n)

        @forward
        async def g(x):
            return x + 1

        self.assertTrue(inspect.iscoroutinefunction(g))
        self.assertEqual(asyncio.new_event_loop().run_until_complete(g(1)), 2)

        @forward
        def rows():
            yield 1
            yield 2

        self.assertEqual(list(rows()), [1, 2])
        with self.assertRaises(KeyError):
            with forward:
                raise KeyError()

        static, method = self.dft.dft_fn("cat").log_static, self.dft.dft_fn("cat").log

        class C:
            @self.dft.ai.checkpoint.init
            def __init__(self, x):
                self.x = x

            @static
            def s(x):
                return x

            @method
            def m(self, step, image_idx=None):
                return self.x + step

        self.assertEqual((C(3).m(4), C.s(5)), (7, 5))

    def test_odd_arguments_raise_nothing(self):
        class Odd:
            def __str__(self):
                raise RuntimeError("no text")

            __repr__ = __str__

        from trainspan import onelogger
        from trainspan.dftracer import ai, dft_fn, dftracer

        for odd in (1, "text", [1], Odd(), len, float("nan"), 1 << 80, None):
            with ai.compute.forward(args={"k": odd}), dft_fn("c", "n") as f:
                f.update(args={"k": odd})
                f.log_metadata("key", odd)
            dftracer.get_instance().log_metadata_event(odd, odd)
            with onelogger.timed_span("name", {"a": odd}):
                pass

    def test_wrong_types_raise_as_in_the_original(self):
        ai, node, fn = self.dft.ai, self.dft.DFTracerAI, self.dft.dft_fn
        for call, error in (
            (lambda: ai.update(epoch="x"), ValueError), (lambda: ai.update(step=[1]), TypeError), (lambda: ai.update(epoch=float("nan")), ValueError),
            (lambda: ai.compute(image_size="x"), ValueError), (lambda: ai.compute(args=5), AttributeError), (lambda: ai.update(args=5), AttributeError),
            (lambda: node("x"), TypeError), (lambda: self.dft.IO("x", "y"), TypeError), (lambda: fn("c", "n", epoch="x"), ValueError),
            (lambda: fn("c", "n").update(step=object()), TypeError),
        ):  # fmt: skip
            with self.subTest(error=error), self.assertRaises(error):
                call()
        ai.disable()
        try:
            self.assertIs(ai.update(epoch="x"), ai)  # update does not check its arguments when the client is off
        finally:
            ai.enable()

        log = fn("c").log

        @log
        def f(step, epoch="train"):
            return step

        self.assertEqual(f("x"), "x", "a parameter of the program is passed on as it is")

    def test_nodes_are_ordinary_objects(self):
        ai, node = self.dft.ai, self.dft.DFTracerAI
        with contextlib.ExitStack() as stack:
            self.assertIs(stack.enter_context(ai.compute), ai.compute)
            stack.enter_context(ai.compute.forward(args={"a": 1}))
        cls = type(ai.compute)
        self.assertIs(cls.__enter__(ai.compute), ai.compute)
        cls.__exit__(ai.compute, None, None, None)
        self.assertEqual((ai.compute.start(), ai.compute.stop()), (None, None))

        class Counted(node):
            entered = left = 0

            def __enter__(self):
                self.entered += 1
                return super().__enter__()

            def __exit__(self, *error):
                self.left += 1
                return super().__exit__(*error)

        counted = Counted(cat="own", name="counted")
        with counted as inside:
            self.assertIs(inside, counted)
        counted.start()
        counted.stop()

        @counted
        def f():
            return 3

        @counted
        async def g():
            return 4

        self.assertEqual((f(), asyncio.run(g())), (3, 4))
        self.assertEqual((counted.entered, counted.left), (4, 4))
        again = pickle.loads(pickle.dumps(node(cat="own", name="kept", epoch=3)))
        self.assertEqual((type(again), again.cat, again.name, again._extra), (node, "own", "kept", {"epoch": 3}))
        with ai.checkpoint.init:
            pass
        self.assertEqual(ai.checkpoint.init(lambda: 5)(), 5)
        self.assertEqual(ai.checkpoint.init.name, "checkpoint.init")

    def test_nodes_that_are_off_look_for_no_spans(self):
        """For None, __exit__ returns without a look-up of the thread's open spans."""
        program = (
            "from trainspan.dftracer import ai\n"
            "print(ai.device._quick is not None)\n"
            "ai.device.disable()\n"
            "print(ai.device._quick)\n"
            "with ai.compute.forward:\n"
            "    ai.compute.disable()\n"
            "    print(ai.compute.forward._quick)\n"
            "print(ai.compute.forward._quick)\n"
            "with ai.compute.forward: pass\n"
            "print(ai.compute.forward._quick)\n"
            "ai.enable()\n"
            "print(ai.compute.forward._quick == ai.compute.forward._n, ai.device._quick == ai.device._n)\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(run(program, folder), (0, "True\nNone\n0\n0\nNone\nTrue True\n", ""))

    def test_enums_are_enums(self):
        import enum

        d = self.dft
        self.assertEqual([c.value for c in d.ProfileCategory], "compute data dataloader comm device checkpoint pipeline other".split())
        self.assertEqual((d.ComputeEvent("forward").name, d.ComputeEvent["STEP"].value), ("FORWARD", "step"))
        word = d.CommunicationEvent.ALL_REDUCE
        self.assertTrue(isinstance(word, enum.Enum) and isinstance(word, str) and isinstance(word, d.CommunicationEvent))
        self.assertEqual((str(word), format(word), "%s" % word, word, word + "s"), ("all_reduce",) * 4 + ("all_reduces",))
        self.assertIs(pickle.loads(pickle.dumps(word)), word)
        with self.assertRaises(ValueError):
            d.ComputeEvent("none")
        self.assertEqual((int(d.TagDType.FLOAT), d.TagType.KEY.name, d.TagValue("5", d.TagDType.INT).value()), (1, "KEY", (0, 5)))

    def test_methods_of_all_kinds(self):
        from trainspan.dftracer import ai, dft_fn

        class Callable:
            def __call__(self, x):
                return x

        class Both:
            @ai.compute.forward
            @staticmethod
            def static(x):
                return x

            @ai.compute.forward
            @classmethod
            def of_class(cls, x):
                return cls, x

        self.assertEqual((Both.static(1), Both().static(2), Both.of_class(3)), (1, 2, (Both, 3)))
        self.assertEqual(dft_fn("c").log(Callable())(4), 4)

    def test_nodes_are_copied(self):
        from trainspan.dftracer import ai

        for node in (ai, ai.comm, ai.comm.send, ai.comm.send.derive("x").derive("y")):
            self.assertIs(pickle.loads(pickle.dumps(node)), node)
            self.assertIs(copy.deepcopy(node), node)
        detached = pickle.loads(pickle.dumps(ai.comm.send(epoch=3, args={"a": 1})))
        self.assertEqual((detached.name, detached._extra), ("send", {"epoch": 3, "a": 1}))

    def test_decorated_functions_are_pickled_by_value(self):
        """cloudpickle does so with the functions of a script: Ray, Dask and joblib use it."""
        import trainspan as ts
        from trainspan.dftracer import DFTracerAI, ai, dft_fn

        log = dft_fn("own").log

        def plain(x, step=1):
            return x + step

        async def waits(x, step=1):
            return x + step

        def rows(x, step=1):
            yield x + step

        span = ts.span("tokenize")
        decorators = (
            span, ts.span("tokenize", n=1), ts.step, ts.step(7), ai.compute.forward, ai.compute.forward(args={"n": 1}), lambda f: ai.compute.forward(f, args={"n": 1}),
            ai.comm.derive("own"), DFTracerAI(cat="own", name="own"), log,
        )  # fmt: skip
        with span:  # its use is not pickled
            for decorate in decorators:
                for f in (plain, waits, rows):
                    with self.subTest(decorator=decorate, f=f.__name__):
                        again = pickle.loads(by_value(decorate(f)))(4)
                        if f is plain:
                            self.assertEqual(again, 5)
                        elif f is rows:
                            self.assertEqual(list(again), [5])
                        else:
                            self.assertEqual(asyncio.run(again), 5)

    def test_open_spans_are_copied(self):
        import trainspan as ts
        from trainspan.dftracer import dft_fn

        own = dft_fn("own", "name", epoch=3)
        with ts.span("read", n=1) as span, ts.step(7) as step, own:
            for kept in (span, step):
                for again in (copy.copy(kept), copy.deepcopy(kept), pickle.loads(pickle.dumps(kept))):
                    self.assertEqual((type(again), again._n, again._args, again._open), (type(kept), kept._n, kept._args, {}))
            again = pickle.loads(pickle.dumps(own))
            self.assertEqual((again._cat, again._name, again._arguments, again._open, again.off), ("own", "name", {"epoch": 3}, {}, False))

    def test_arguments_of_a_node_are_encoded_once(self):
        node = self.dft.ai.compute.forward(step=3, args={"bytes": 4096})
        work, called = node(lambda: None), []
        for turn in range(2):  # the first turn opens the ring buffer
            called.clear()
            sys.setprofile(lambda frame, event, _: event == "call" and called.append(frame.f_code.co_name))
            try:
                with node:
                    pass
                work()
            finally:
                sys.setprofile(None)
        self.assertEqual(called.count("chain_of"), 2, called)  # they are written
        self.assertEqual(called.count("encode"), 0, called)

    def test_iterators(self):
        fetch = self.dft.ai.dataloader.fetch
        self.assertEqual(list(fetch.iter(iter("abc"), include_block=False, iter_name="x")), ["a", "b", "c"])
        closed = []

        def source():
            try:
                yield from range(10)
            finally:
                closed.append(True)

        for i in self.dft.dft_fn("cat").iter(source()):
            if i == 2:
                break
        import gc

        gc.collect()
        self.assertEqual(closed, [True])

        def failing():
            yield 1
            raise ValueError("x")

        with self.assertRaises(ValueError):
            list(fetch.iter(failing()))

    def test_metadata_leaves_space_for_threads(self):
        program = (
            "import threading\n"
            "from trainspan import _ring\n"
            "from trainspan.dftracer import ai\n"
            "for size in (4000, 1):\n"
            "    for i in range(3000): ai.log_metadata('k', 'x' * size)\n"
            "def work():\n"
            "    with ai.compute.forward: print(_ring.enabled())\n"
            "t = threading.Thread(target=work); t.start(); t.join()\n"
            "print(_ring.name('late', 'test') != _ring.LASTING - 1)\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(run(program, folder), (0, "True\nTrue\n", ""))

    def test_inside(self):
        r = self.ring
        own, hooks = r.name("forward", "compute", "detached"), r.name("forward", "compute", "torch")
        self.assertFalse(r.inside(hooks))
        with self.dft.ai.compute.forward:
            self.assertTrue(r.inside(hooks))
        token = r.start(hooks)
        self.assertFalse(r.inside(hooks))
        inner = r.start(own)
        self.assertTrue(r.inside(hooks))
        r.end(token)
        self.assertTrue(r.inside(hooks))
        r.end(inner)
        self.assertFalse(r.inside(hooks))

    def test_old_paths(self):
        from trainspan.dftracer.logger import ai, dft_fn, dftracer
        from trainspan.dftracer.python.common import TagDType, TagValue

        self.assertIs(ai, self.dft.ai)
        self.assertEqual(TagValue("5", TagDType.INT).value(), (0, 5))
        log = dftracer.initialize_log(None, None, -1)
        log.log_event("n", "c", log.get_time() - 5, 5, int_args={"a": TagValue(1, TagDType.INT).value()}, string_args={"s": (0, "x")})
        with dft_fn("c", "n") as f:
            f.update(epoch=1, args={"x": TagValue(2.5, TagDType.FLOAT)}).flush()
        log.finalize()

    def test_what_is_not_there(self):
        from trainspan.dftracer.python.dynamo import Dynamo  # noqa: F401

        self.assertFalse("torch" in sys.modules, "torch was imported before anything was compiled")
        self.assertFalse(hasattr(self.dft, "anything_else"))


if __name__ == "__main__":
    unittest.main()
