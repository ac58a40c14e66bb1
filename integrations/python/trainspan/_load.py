"""Loads recorded runs, for notebooks: ts.load."""

import html
import json
import os
import subprocess
import tempfile
import warnings

from .__main__ import command


class _Failed(RuntimeError):
    """The error if the command has no result."""


def _wide(pyarrow, events):
    """Returns a table with a column for each number of the events of ts.metric."""
    values = [json.loads(args or "{}") for args in events["args"].to_pylist()]
    columns = {name: events[name] for name in ("rank", "attempt", "step", "ts")}
    for name in dict.fromkeys(key for row in values for key in row):
        numbers = [row.get(name) for row in values]
        if any(isinstance(value, str) for value in numbers):  # NaN and the infinities, or a text
            numbers = [_number(value) for value in numbers]
        columns[name if name not in columns else name + "_value"] = pyarrow.array(numbers)
    return pyarrow.table(columns)


def _number(value):
    try:
        return None if value is None else float(value)
    except ValueError:
        return None


class Run:
    """A recorded run. It reads its data at the first access."""

    def __init__(self, path, binary=None):
        self.path, self._binary, self._kept = os.fspath(path), binary, {}
        if not os.path.exists(self.path):  # the id of a run, which the command resolves
            try:
                self._once("report", self._report)
            except _Failed as e:
                raise FileNotFoundError("%s: no such run; trainspan runs lists all runs (%s)" % (self.path, e)) from None

    def _call(self, *args, output=None):
        """Returns the standard output of the command. With status 1 it has a result, on standard
        output or in the folder output, and reports damaged or skipped files."""
        binary = self._binary = self._binary or command()
        if binary is None:
            raise RuntimeError("the trainspan command is not on PATH: install the wheel, or pass its path: trainspan.load(path, command=...)")
        done = subprocess.run([binary, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if done.returncode:
            said = "trainspan %s: %s" % (" ".join(args[: 2 if args[0] == "trace" else 1]), done.stderr.decode("utf-8", "replace").strip() or "status %d" % done.returncode)
            if done.returncode != 1 or not (done.stdout or output and os.path.exists(output)):
                raise _Failed(said)
            warnings.warn(said, RuntimeWarning, stacklevel=2)
        return done.stdout.decode("utf-8", "replace")

    def _once(self, name, make):
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]

    @property
    def report(self):
        """The output of `trainspan report --json`; docs/guide/report.md has its schema."""
        return self._once("report", self._report)

    def _report(self):
        return json.loads(self._call("report", "--json", self.path))

    @property
    def account(self):
        """The goodput account: how the time was used."""
        return self.report.get("ledger") or {}

    @property
    def findings(self):
        """The verdict of the report: its findings, and what to do next."""
        return self.report.get("verdict") or {}

    @property
    def ranks(self):
        """A row for each rank."""
        return self.report.get("ranks") or []

    @property
    def steps(self):
        """A pyarrow.Table with a row for each step of each rank."""
        return self._table("steps")

    @property
    def spans(self):
        """A pyarrow.Table with a row for each span."""
        return self._table("spans")

    @property
    def metrics(self):
        """A pyarrow.Table with a row for each call of ts.metric: rank, attempt, step, the time,
        and a column for each of its numbers."""
        return self._table("metrics")

    def to_pandas(self, table="steps"):
        """Returns the table steps, spans or metrics as a pandas.DataFrame."""
        return self._table(table).to_pandas()

    def _table(self, name):
        if name not in ("steps", "spans", "metrics"):
            raise ValueError("table %r is not 'steps', 'spans' or 'metrics'" % (name,))
        if name not in self._kept:
            self._kept.update(self._tables())
        return self._kept[name]

    def _tables(self):
        try:
            import pyarrow
            from pyarrow import compute, dataset
        except ImportError as e:
            raise ImportError("steps, spans and metrics are Arrow tables: run pip install pyarrow. report, account, findings and ranks need no other package") from e
        with tempfile.TemporaryDirectory(prefix="trainspan-") as folder:
            lake = os.path.join(folder, "lake")
            self._call("trace", "convert", "--to", "parquet", "-o", lake, self.path, output=lake)
            tables = {}
            for name, part in (("steps", "steps"), ("spans", "events")):
                at = os.path.join(lake, part)
                tables[name] = dataset.dataset(at, partitioning="hive").to_table() if os.path.isdir(at) else pyarrow.table({})
        events = tables["spans"]
        tables["metrics"] = pyarrow.table({})
        if "ph" in events.column_names:
            events = events.filter(compute.equal(events["ph"], "X"))
            numbers = compute.equal(events["cat"], "metric")
            tables["spans"] = events.filter(compute.invert(numbers))
            tables["metrics"] = _wide(pyarrow, events.filter(numbers).sort_by("ts"))
        return tables

    def __str__(self):
        return self._once("screen", lambda: self._call("report", self.path))

    def __repr__(self):
        return "trainspan.load(%r)" % self.path

    def _repr_html_(self):
        return "<pre>%s</pre>" % html.escape(str(self))


def load(path, command=None):
    """Returns a recorded run: by its id in trainspan-runs, `ts.load("train.3")`, by the name of
    a job its newest run, `ts.load("train")`, or by a folder or file. It has steps, spans and
    metrics as Arrow tables (to_pandas, polars.from_arrow), ranks, account and findings, and
    report, the whole output of `trainspan report --json`; a notebook shows the first screen.
    command is the path of the command, if it is not in PATH."""
    return Run(path, command)
