"""Runs programs with DFTracer and with trainspan's API for it, and compares their traces
record by record.

    python3 side.py --original VENV/bin/python --trainspan PATH [--seeds 50] [--seed 0] [PROGRAM.py ...]

The original is pydftracer 2.0.6 with dftracer 2.2.0, in a separate environment. A program
imports `dftracer.python` or `dftracer.logger`; for trainspan's API the prefix `trainspan.` is
added. Besides the given programs it runs those of random_program, one for each seed, and also
compares their output. RULES and docs/reference/formats.md have the permitted differences; any
other difference is a defect, and the exit status is 1.
"""

import argparse
import collections
import glob
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SETTINGS = {"DFTRACER_ENABLE": "1", "DFTRACER_INC_METADATA": "1", "DFTRACER_TRACE_COMPRESSION": "0", "DFTRACER_ENABLE_AGGREGATION": "0"}
NODES = "compute.forward compute.backward compute.step data.preprocess data.item device.transfer comm.all_reduce checkpoint.capture pipeline.evaluate data.io.read other.log".split()


def random_program(seed):
    """Returns a program that nests, decorates, iterates, updates and switches at random, and does
    I/O. It omits what the original does not record: see docs/reference/formats.md."""
    r = random.Random(seed)
    lines = ["import os", "from dftracer.python import ai, dft_fn, dftracer", "D = os.getcwd() + '/data/'", "log = dftracer.initialize_log('out.pfw', D[:-1], -1)"]
    # Nodes that are derived later do not have all arguments of earlier updates.
    lines.append("for node in (%s): node.init(), node.derive('x'), node.derive('y')" % ", ".join("ai." + node for node in NODES))
    count = 0

    def fresh(word):
        nonlocal count
        count += 1
        return "%s%d" % (word, count)

    def put(depth, text):
        lines.append("    " * depth + text)

    def statement(depth, free):
        """Adds a random statement of the API. free are the nodes that no enclosing statement
        uses: the original has one clock for each node."""
        kind = r.choice("with with start decorated log init static iter fn_iter update fn_update metadata meta switch fn_with file".split())
        node = r.choice(free) if free else None
        rest = [n for n in free if n != node]
        if node is None or depth > 3 and kind in ("with", "start", "iter"):
            kind = "meta"
        if kind == "with":
            put(depth, "with ai.%s:" % node)
            block(depth + 1, rest)
        elif kind == "start":
            put(depth, "ai.%s.start()" % node)
            block(depth, rest)
            put(depth, "ai.%s.stop()" % node)
        elif kind == "decorated":
            name = fresh("f")
            put(depth, "@ai.%s%s" % (node, r.choice(("", "", ".init", ".derive('%s')" % r.choice("xy")))))
            put(depth, "def %s(x, y=2): return x" % name)
            for _ in range(r.randint(1, 3)):
                put(depth, "%s(%d)" % (name, r.randint(0, 9)))
        elif kind in ("log", "static"):
            name, word = fresh("g"), r.choice("epoch step image_idx".split())
            put(depth, "@dft_fn('cat%d').%s" % (r.randint(0, 3), "log" if kind == "log" else "log_static"))
            put(depth, "def %s(x, %s): return x" % (name, word))
            put(depth, "%s(1, %d)" % (name, r.randint(0, 9)))
        elif kind == "init":
            name, word = fresh("C"), r.choice("epoch step image_idx".split())
            put(depth, "class %s:" % name)
            put(depth + 1, "@dft_fn('init%d').log_init" % r.randint(0, 3))
            put(depth + 1, "def __init__(self, %s): self.kept = %s" % (word, word))
            put(depth, "%s(%d)" % (name, r.randint(0, 9)))
        elif kind == "iter":
            options = r.choice(("", "", ", include_iter=False", ", include_block=False", ", iter_name='i%d'" % count))
            put(depth, "for v in ai.dataloader.fetch.iter(range(%d)%s):" % (r.randint(0, 4), options))
            block(depth + 1, rest)
        elif kind == "fn_iter":
            put(depth, "for v in dft_fn('loops').iter(range(%d)%s):" % (r.randint(0, 3), r.choice(("", ", name='n'", ", iter_name='k'"))))
            block(depth + 1, rest)
        elif kind == "update":
            put(depth, "ai.%s.update(%s)" % (node, r.choice(("epoch=%d", "step=%d", "args={'n': %d}", "args={'f': %d.5}", "args={'s': 'a%d'}")) % r.randint(0, 9)))
            put(depth, "with ai.%s: pass" % node)
        elif kind in ("fn_with", "fn_update"):
            put(depth, "with dft_fn('ctx', '%s', step=%d) as c:" % (fresh("w"), r.randint(0, 9)))
            put(depth + 1, "c.update(args={'a': %d, 'b': 0.5, 't': 'x', 'l': [1, 2]})" % r.randint(0, 9) if kind == "fn_update" else "pass")
        elif kind == "metadata":
            put(depth, "ai.%s.start(metadata=True); ai.%s.stop(metadata=True)" % (node, node))
        elif kind == "meta":
            put(depth, "dft_fn('m').log_metadata('%s', '%d')" % (fresh("key"), r.randint(0, 9)))
        elif kind == "switch":
            top = node.split(".")[0]
            put(depth, "ai.%s.disable()" % r.choice((top, node)))
            put(depth, "with ai.%s: pass" % node)
            put(depth, "ai.%s.enable()" % top)
        else:
            name = fresh("D + 'f") + "'"
            put(depth, "with open(%s, '%s') as h: n = h.write(%s * %d)" % (name, *r.choice((("w", "'x'"), ("wb", "b'y'"))), r.randint(1, 20000)))
            put(depth, "with open(%s, 'rb', %d) as h: h.read(%d)" % (name, r.choice((-1, 0)), r.randint(1, 3000)))
            put(depth, "fd = os.open(%s, os.O_RDWR); os.write(fd, b'ab'); os.pread(fd, 3, 1); os.lseek(fd, 0, 2); os.fsync(fd); os.close(fd)" % name)
            if r.random() < 0.5:
                put(depth, "os.rename(%s, %s + '.new'); os.unlink(%s + '.new'); os.mkdir(%s); os.listdir(%s); os.rmdir(%s)" % ((name,) * 6))

    def block(depth, free):
        for _ in range(r.randint(1, 3)):
            statement(depth, free)

    for _ in range(12):
        statement(0, list(NODES))
    lines += ["log.finalize()", "print('done')"]
    return "\n".join(lines) + "\n"


def run(program, ours, options):
    """Returns the output of a program, and the records of its trace."""
    folder = tempfile.mkdtemp(prefix="originals-")
    try:
        os.mkdir(os.path.join(folder, "data"))
        text = program
        env = {k: v for k, v in os.environ.items() if not k.startswith(("TRAINSPAN_", "DFTRACER_", "PYTHON"))}
        env.update(SETTINGS)
        if ours:
            text = re.sub(r"^(from|import) dftracer\.", r"\1 trainspan.dftracer.", text, flags=re.M)
            env["PYTHONPATH"] = CLIENT
        with open(os.path.join(folder, "program.py"), "w") as f:
            f.write(text)
        done = subprocess.run([options.original, "program.py"], cwd=folder, env=env, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise SystemExit("%s ended with %d:\n%s\n%s" % ("ours" if ours else "the original", done.returncode, done.stderr[-2000:], text))
        if ours:
            subprocess.run([options.trainspan, "trace", "import", folder, "-q"], check=True, timeout=300)
        records = []
        for path in glob.glob(os.path.join(folder, "*.pfw")):
            if ours:
                subprocess.run([options.trainspan, "trace", "validate", path], check=True, timeout=300, stdout=subprocess.DEVNULL)
            with open(path) as f:
                records += [json.loads(line) for line in f if line.startswith("{")]
        return done.stdout, comparable(records, os.path.realpath(folder), ours)
    finally:
        shutil.rmtree(folder)


# Equivalent names and forms. docs/reference/formats.md lists each of these differences.
RULES = {
    "pread64": "calls on files have the names that DFAnalyzer adds up",
    "pwrite64": "the same",
}
HASHES = ("fhash", "newpath_hash")


def comparable(records, folder, ours):
    """Returns the number of records by the values that both libraries must agree on."""
    paths = {r["args"]["value"]: r["args"]["name"].replace(folder, ".") for r in records if r["name"] == "FH"}
    found = collections.Counter()
    for r in records:
        args = {k: v for k, v in r.get("args", {}).items() if k not in ("hhash", "level", "p_idx", "otel.status_code")}
        name, cat = r["name"], r["cat"]
        if name == "CM" and args["name"] not in ("time_metric",) and not args["name"].startswith(("written", "clock", "world_size", "open")):
            if args["name"].endswith((".start", ".end")):
                args["value"] = "time"
            found["CM %s=%s" % (args["name"], args["value"])] += 1
        if cat == "dftracer":
            continue
        args.update((k, paths.get(args[k], "?")) for k in HASHES if k in args)
        if cat == "POSIX":
            # Calls that ask for the position in a file, and calls inside of the interpreter.
            if name == "lseek64" and args.get("whence") == 1 or name in ("mmap64",) and not ours and "f" not in args.get("fhash", ""):
                continue
            name = name[:-2] if name in RULES else name
            if args.get("ret") == 0 and name == "read":
                continue  # the end of the file: a part of the previous read
            if name == "read":
                args.pop("count")  # for the rest of a file the original requests one byte more
        else:
            if not name.endswith((".iter", ".block", ".yield")) and not re.match("i[0-9]", name):
                args.pop("count", None)  # the original keeps the value of the last iterator
            else:
                for key in [key for key in args if key not in ("count", "step", "k")] + ["step"] * ("count" in args):
                    args.pop(key, None)  # arguments of updates: recorded at the end of the body, not at its begin
            if "relations" in args:
                args["relations"] = json.dumps(args["relations"], sort_keys=True)
        found["%s %s %s" % (cat, name, " ".join("%s=%s" % item for item in sorted(args.items())))] += 1
    return found


def compare(name, program, options):
    (said, theirs), (says, ours) = run(program, False, options), run(program, True, options)
    for one, other in itertools.zip_longest(said.splitlines(), says.splitlines()):
        if one != other:
            print("%s: the original prints\n  %s\nand ours\n  %s" % (name, one, other))
    wrong = [(theirs[k], ours[k], k) for k in sorted(theirs | ours) if theirs[k] != ours[k]]
    if wrong:
        print("%s: %d of %d kinds of records differ (original, ours):" % (name, len(wrong), len(theirs | ours)))
        for row in wrong[:20]:
            print("  %d  %d  %s" % row)
        with open(os.path.join(tempfile.gettempdir(), "originals-%s.py" % os.path.basename(name)), "w") as f:
            f.write(program)
    return sum(theirs.values()), len(wrong) + (said != says)


def main():
    parser = argparse.ArgumentParser(description="DFTracer and trainspan side by side")
    parser.add_argument("--original", required=True, help="the interpreter that has pydftracer and dftracer")
    parser.add_argument("--trainspan", required=True, help="the command trainspan")
    parser.add_argument("--seeds", type=int, default=50, help="how many random programs")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("programs", nargs="*")
    options = parser.parse_args()
    options.original, options.trainspan = os.path.abspath(options.original), os.path.abspath(options.trainspan)
    programs = [("random-%d" % seed, random_program(seed)) for seed in range(options.seed, options.seed + options.seeds)]
    for path in options.programs:
        with open(path) as f:
            programs.append((path, f.read()))
    records = different = 0
    for name, program in programs:
        n, wrong = compare(name, program, options)
        records, different = records + n, different + (wrong > 0)
    print("%d programs, %d records of the original, %d programs differ" % (len(programs), records, different))
    return different > 0


if __name__ == "__main__":
    sys.exit(main())
