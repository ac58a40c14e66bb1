"""Tests of `import trainspan as ts` in a program that is not recorded, of ts.load and of trainspan_dask."""

import asyncio
import json
import os
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
os.environ["DFTRACER_ENABLE"] = "0"

import trainspan as ts  # noqa: E402
from trainspan import _load  # noqa: E402


class Unwatched(unittest.TestCase):
    def test_nothing_is_changed(self):
        def f():
            return 1

        async def g():
            async with ts.span("a") as s:
                return s

        self.assertIs(ts.span("x", n=1)(f), f)
        self.assertIs(ts.step(f), f)
        self.assertIs(ts.step(7, epoch=1)(f), f)
        with ts.step(), ts.span("forward", tokens=1) as s:
            self.assertIs(s.add(n=2), s)
            self.assertIs(s.start(), s)
            self.assertIsNone(s.stop())
            ts.metric(loss=0.5)
        self.assertIs(asyncio.run(g()), s)
        with self.assertRaises(ZeroDivisionError), ts.span("x"):
            1 / 0

    def test_help_and_names(self):
        self.assertLessEqual({"load", "metric", "span", "step"}, set(dir(ts)))
        with self.assertRaises(AttributeError):
            ts.spam
        self.assertEqual((ts.Span.__name__, ts.Run.__name__), ("Span", "Run"))  # types that programs annotate with
        text = subprocess.run([sys.executable, "-c", "import trainspan; help(trainspan)"], env=dict(os.environ, PYTHONPATH=str(HERE.parent)),
                              stdout=subprocess.PIPE, check=True).stdout.decode()  # fmt: skip
        for word in ("import trainspan as ts", "with ts.step():", "load(path", "metric(**", "span(name", "trainspan run -- python"):
            self.assertIn(word, text)
        for word in ("alien", "passing", "quiet", "environ"):
            self.assertNotIn(word, text)

    def test_the_import_is_light(self):
        code = "import sys, trainspan; sys.exit(bool({'trainspan._ring', 'trainspan._load', 'json'} & set(sys.modules)))"
        subprocess.run([sys.executable, "-S", "-c", code], env=dict(os.environ, PYTHONPATH=str(HERE.parent)), check=True)


class Loading(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.command = os.path.join(self.folder, "trainspan")
        report = {"ledger": {"wall_ns": 7}, "verdict": {"sentence": "s"}, "ranks": [{"rank": 0}]}
        with open(self.command, "w") as f:
            f.write("#!/bin/sh\ncase \"$*\" in\n*' none'*) echo no such run >&2; exit 1;;\n*' torn'*) echo 'x.pfw: the file is damaged' >&2; echo '{\"ranks\": [{\"rank\": 1}]}'; exit 1;;\n'report --json '*) echo '%s';;\nreport*) echo 'FINE <1 s';;\n*) echo broken >&2; exit 1;;\nesac\n" % json.dumps(report))
        os.chmod(self.command, stat.S_IRWXU)

    def test_report(self):
        run = ts.load(self.folder, command=self.command)
        self.assertEqual((run.account, run.findings, run.ranks), ({"wall_ns": 7}, {"sentence": "s"}, [{"rank": 0}]))
        self.assertEqual(run._repr_html_(), "<pre>FINE &lt;1 s\n</pre>")

    def test_by_id(self):
        for name in ("train.3", "train"):
            self.assertEqual(ts.load(name, command=self.command).ranks, [{"rank": 0}])

    def test_a_damaged_file_is_a_warning(self):
        with self.assertWarnsRegex(RuntimeWarning, "^trainspan report: x.pfw: the file is damaged$"):
            self.assertEqual(ts.load("torn", command=self.command).ranks, [{"rank": 1}])

    def test_what_is_missing_is_named(self):
        def message(kind, f):
            with self.assertRaises(kind) as caught:
                f()
            return str(caught.exception)

        self.assertIn("trainspan runs", message(FileNotFoundError, lambda: ts.load("none", command=self.command)))
        run = ts.load(self.folder, command=self.command)
        self.assertIn("'spam'", message(ValueError, lambda: run.to_pandas("spam")))
        with mock.patch.object(_load, "command", lambda: None):
            self.assertIn("install the wheel", message(RuntimeError, lambda: ts.load(self.folder).report))
            self.assertIn("install the wheel", message(RuntimeError, lambda: ts.load("train.3")))
        with mock.patch.dict(sys.modules, {"pyarrow": None}):
            self.assertIn("pip install pyarrow", message(ImportError, lambda: run.steps))
        fake = {name: mock.MagicMock() for name in ("pyarrow", "pyarrow.compute", "pyarrow.dataset")}
        with mock.patch.dict(sys.modules, fake):
            self.assertEqual("trainspan trace convert: broken", message(RuntimeError, lambda: run.spans))


class Dask(unittest.TestCase):
    """What a worker does, without a cluster."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.command = str(self.folder / "trainspan")
        Path(self.command).write_text(
            "#!/bin/sh\ncase \"$*\" in\n*none*) echo no such file >&2; exit 1;;\n"
            "'trace digest '*) echo digest >\"$4\"; echo cut off >&2; exit 1;;\n'report '*) echo '{}'; echo cut off >&2; exit 1;;\nesac\n"
        )
        os.chmod(self.command, stat.S_IRWXU)
        sys.path.insert(0, str(HERE.parent / "dask"))
        self.addCleanup(sys.path.remove, str(HERE.parent / "dask"))
        with mock.patch.dict(sys.modules, {"dask": mock.MagicMock(), "dask.bag": mock.MagicMock()}):
            import trainspan_dask
        self.dask = trainspan_dask

    def test_a_damaged_file_is_a_warning(self):
        with self.assertWarnsRegex(RuntimeWarning, "cut off"):
            self.assertEqual(b"digest\n", self.dask.digest_of_part(self.command, [["part"]]))
        with self.assertWarnsRegex(RuntimeWarning, "cut off"):
            self.assertEqual("{}\n", self.dask.report_of(["--json"], self.command, b"digest\n"))

    def test_no_result_is_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "status 1: no such file"):
            self.dask.digest_of_part(self.command, [["none"]])

    def test_only_a_digest_is_replaced(self):
        whole, output = mock.MagicMock(), self.folder / "all.digest"
        whole.compute.return_value = b"trspdig\n new"
        with mock.patch.object(self.dask, "bag", return_value=whole):
            for before, after in ((None, "trspdig\n new"), ("trspdig\n old", "trspdig\n new"), ("notes of mine, not a digest", None)):
                if before:
                    output.write_text(before)
                if after:
                    self.dask.digest(["part"], output)
                else:
                    with self.assertRaisesRegex(FileExistsError, "not a digest"):
                        self.dask.digest(["part"], output)
                self.assertEqual(after or before, output.read_text())


if __name__ == "__main__":
    unittest.main()
