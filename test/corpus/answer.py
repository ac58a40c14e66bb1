#!/usr/bin/env python3
"""python3 answer.py RULE: prints an answer for each job, as score.py reads them.

RULE is one of

  trainspan[=BINARY]  `trainspan report --json`
  section-scores      NVIDIA Resiliency Extension's relative scores of sections: in at least half of the windows of 50
                      steps, the median of a section is above 1/0.75 of the fastest rank's
  least-visible       TraceML's summary: the rank whose backward (with the all-reduce in it) is shortest waited least;
                      it is slow if that is by 10 % of a step
  last-starters       HTA's straggler analysis: the two ranks that start the collective with the most varying
                      durations last, on the average of all steps

The last three are written from the published descriptions of these rules, on the spans of a step alone. The tools have
other answers, which are not asked for here."""
import collections
import concurrent.futures
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SECTIONS = ["fetch.iter", "forward", "backward", "step"]


def read(job):
    """Of each rank its spans: (name, category, step, start and duration in microseconds, arguments)."""
    ranks = {}
    folder = os.path.join(HERE, "jobs", job)
    for name in sorted(os.listdir(folder)):
        spans, rank, step = [], None, 0
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            for line in f:
                if not line.startswith("{"):
                    continue
                event = json.loads(line)
                args = event.get("args", {})
                if event["ph"] == "M" and event["name"] == "PR" and args.get("name") == "rank":
                    rank = int(args["value"])
                elif event["ph"] == "X" and event["cat"] != "dftracer":
                    spans.append((event["name"], event["cat"], args.get("step", -1), event["ts"], event["dur"], args))
        ranks[rank] = spans
    return ranks


def sums(spans):
    """The microseconds of each section in each step."""
    out = collections.defaultdict(lambda: collections.defaultdict(int))
    for name, cat, step, _, duration, _ in spans:
        if name in SECTIONS and cat in ("compute", "dataloader") and step >= 0:
            out[step][name] += duration
    return out


def iterations(spans):
    """How long each step takes: from the start of one iteration to that of the next."""
    starts = sorted((step, start) for name, cat, step, start, _, _ in spans if name == "train.iteration" and cat == "pipeline" and step >= 0)
    return {a[0]: b[1] - a[1] for a, b in zip(starts, starts[1:])}


def section_scores(ranks):
    sections = {r: sums(s) for r, s in ranks.items()}
    steps = sorted(set.intersection(*(set(s) for s in sections.values())))
    windows = [steps[i:i + 50] for i in range(0, len(steps), 50)]
    flagged = collections.Counter()
    for window in windows:
        slow = set()
        for section in SECTIONS:
            middle = {r: statistics.median_low([s[step].get(section, 0) for step in window]) for r, s in sections.items()}
            fastest = min(middle.values())
            slow |= {r for r, m in middle.items() if m > 0 and fastest / m < 0.75}
        flagged.update(slow)
    slow = sorted(r for r, n in flagged.items() if 2 * n >= len(windows))
    return {"kind": "slow_ranks", "ranks": slow} if slow else {"kind": "fine", "ranks": []}


def least_visible(ranks):
    mean = {}
    for r, spans in ranks.items():
        sections, took = sums(spans), iterations(spans)
        common = [s for s in took if s in sections]
        if len(common) < 20:
            return {"kind": "unknown"}
        mean[r] = {n: statistics.fmean(sections[s].get(n, 0) for s in common) for n in SECTIONS} | {"all": statistics.fmean(took[s] for s in common)}
    # What a rank waits in the all-reduce is within its backward or behind it: to the start of the optimizer.
    visible = {r: m["all"] - m["fetch.iter"] - m["forward"] - m["step"] for r, m in mean.items()}
    if len(visible) > 1:
        culprit = min(visible, key=visible.get)
        victim = sorted(visible, key=visible.get)[len(visible) // 2]
        cost = visible[victim] - visible[culprit]
        if cost >= 0.10 * mean[victim]["all"]:
            for section, cause in (("fetch.iter", "input"), ("forward", "forward")):
                if mean[culprit][section] - mean[victim][section] >= 0.8 * cost:
                    return {"kind": "slow_ranks", "ranks": [culprit], "cause": cause}
            return {"kind": "slow_ranks", "ranks": [culprit]}
    if statistics.median(m["fetch.iter"] / m["all"] for m in mean.values()) >= 0.10:
        return {"kind": "input", "ranks": [], "cause": "input"}
    return {"kind": "fine", "ranks": []}


def last_starters(ranks):
    calls, took = collections.defaultdict(dict), []
    for r, spans in ranks.items():
        took += iterations(spans).values()
        for name, cat, step, start, duration, args in spans:
            if args.get("pg") and duration > 0:
                calls[name, args["pg"], step].setdefault(r, (0, 0))
                calls[name, args["pg"], step][r] = (start, duration)  # the last one of the step
    if not took:
        return {"kind": "unknown"}
    varies, starts = collections.defaultdict(list), collections.defaultdict(lambda: collections.defaultdict(list))
    for (name, group, _), of in calls.items():
        if len(of) < 2 or max(d for _, d in of.values()) < 0.01 * statistics.fmean(took):
            continue
        varies[name, group].append(statistics.pstdev(d for _, d in of.values()))
        for r, (start, _) in of.items():
            starts[name, group][r].append(start)
    if not varies:
        return {"kind": "unknown"}
    most = max(varies, key=lambda k: statistics.fmean(varies[k]))
    late = sorted(starts[most], key=lambda r: -statistics.fmean(starts[most][r]))
    return {"kind": "slow_ranks", "ranks": sorted(late[:2])}


def trainspan(binary, job):
    done = subprocess.run([binary, "report", "--json", os.path.join(HERE, "jobs", job)], capture_output=True, text=True, check=False)
    verdict = (json.loads(done.stdout or "{}").get("verdict") or {}).get("straggler") or {}
    return {key: verdict[key] for key in ("kind", "ranks", "cause", "gain") if verdict.get(key)}


RULES = {"section-scores": section_scores, "least-visible": least_visible, "last-starters": last_starters}


def main():
    rule, _, binary = sys.argv[1].partition("=") if len(sys.argv) == 2 else ("", "", "")
    if rule != "trainspan" and rule not in RULES:
        sys.exit(__doc__)
    jobs = sorted(os.listdir(os.path.join(HERE, "jobs")))
    if rule == "trainspan":
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            answers = list(pool.map(lambda job: trainspan(binary or "trainspan", job), jobs))
    else:
        answers = [RULES[rule](read(job)) for job in jobs]
    for job, answer in zip(jobs, answers):
        print(json.dumps({"job": job} | answer))


if __name__ == "__main__":
    main()
