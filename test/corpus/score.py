#!/usr/bin/env python3
"""python3 score.py [-v] ANSWERS...: scores files of answers (JSON lines) against truth.json.

One line of an answer: {"job": NAME, "kind": KIND, "ranks": [3], "cause": "input", "gain": 1.12}.
README.md says what each field means. A job without an answer counts as silent."""
import argparse
import json
import os

OUTCOMES = ["right", "silent", "partly", "missed", "alarm", "blamed"]
GAIN_RELATIVE, GAIN_ABSOLUTE = 0.15, 0.02


def fits(want, kind, ranks, cause):
    return kind == want["kind"] and ranks == sorted(want["ranks"]) and (not cause or not want.get("causes") or cause in want["causes"])


def judge(truth, answer):
    """The outcome of one answer, and whether its gain is right (None: it states none that can be checked)."""
    kind, ranks, cause = answer.get("kind") or "unknown", sorted(answer.get("ranks") or []), answer.get("cause") or ""
    real = not any(a["kind"] == "fine" for a in truth["right"])
    right = any(fits(a, kind, ranks, cause) for a in truth["right"])
    if not right and len(ranks) == truth["ranks"] > 1 and kind != "hang":
        ranks = []  # all ranks: nobody in particular
        right = any(fits(a, kind, ranks, cause) for a in truth["right"])
    if right:
        outcome = "right"
    elif kind == "unknown":
        outcome = "silent" if truth["may_abstain"] or not real else "missed"
    elif kind == "fine":
        outcome = "missed"
    elif any(fits(a, kind, ranks, cause) for a in truth.get("partly", [])):
        outcome = "partly"
    elif ranks and not set(ranks) <= set(truth["culprits"]):
        outcome = "blamed"
    else:
        outcome = "partly" if real else "alarm"
    gain, true = answer.get("gain"), truth["gains"].get(",".join(map(str, ranks)))
    if outcome not in ("right", "partly") or kind in ("fine", "unknown", "hang") or not gain or not true:
        return outcome, None
    return outcome, abs(gain - true) <= max(GAIN_RELATIVE * abs(true - 1), GAIN_ABSOLUTE)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("answers", nargs="+")
    parser.add_argument("-v", action="store_true", help="print each job that is not right or silent")
    options = parser.parse_args()
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "truth.json"), encoding="utf-8") as f:
        truths = json.load(f)
    print(f"{'answers':24s}" + "".join(f"{o:>8s}" for o in OUTCOMES) + "   gains")
    for path in options.answers:
        answers = {}
        with open(path, encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                if not line.strip():
                    continue
                answer = json.loads(line)
                if answer.get("job") not in truths:
                    parser.error(f"{path}:{number}: no job of that name in truth.json: {answer.get('job')!r}")
                answers[answer["job"]] = answer
        counts, gains = dict.fromkeys(OUTCOMES, 0), [0, 0]
        for job in sorted(truths):
            outcome, gain = judge(truths[job], answers.get(job, {}))
            counts[outcome] += 1
            if gain is not None:
                gains[0] += gain
                gains[1] += 1
            if options.v and (outcome not in ("right", "silent") or gain is False):
                print(f"  {outcome:7s} {job}: got {answers.get(job)}, want {truths[job]['right']}, gains {truths[job]['gains']}")
        print(f"{os.path.basename(path):24s}" + "".join(f"{counts[o]:8d}" for o in OUTCOMES) + f"   {gains[0]}/{gains[1]}")


if __name__ == "__main__":
    main()
