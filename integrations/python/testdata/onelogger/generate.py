"""Prints a scenario: a random program that uses one-logger's API, determined by the seed.

    python3 generate.py SEED

It is a typical training with custom spans, events and errors at any place, some explicit times,
and occasional wrong calls."""

import json
import random
import sys

SEED = int(sys.argv[1])
r = random.Random(SEED)
EPOCH = 1760000000000
now = EPOCH
steps, custom = [], []  # custom: the open spans that the program starts itself


def step(call, save_as=None, **args):
    global now
    now += r.choice((125, 250, 375, 1000))
    said = {"call": call, "args": args, "now_msec": now}
    if save_as:
        said["save_as"] = save_as
    steps.append(said)


def at(key):
    """Returns an explicit time or nothing. The time is shortly before the call and after the previous one."""
    return {key: now + 125} if r.random() < 0.2 else {}


def value():
    return r.choice((1, -7, 0, 1.5, 1e-7, 1e20, True, False, "text", "a \"quote\"", "ü\u2028", "", 2**70, [1, 2, 3], ["a", "b"], [0.5], [True]))


def attributes():
    return {"k%d" % n: value() for n in range(r.randint(0, 3))}


def anything(scoped=False):
    """Adds a step that is allowed at any place, but no scopes inside of a scope: there Go takes
    the parent from its context, and Python from the open spans."""
    for _ in range(r.choice((0, 0, 0, 1, 2))):
        kind = r.random()
        if kind < 0.3 or not custom:
            name = "own%d" % len(steps)
            step("recorder.start", name, name=name, attributes=attributes(), start_event_attributes=attributes())
            custom.append("$" + name)
        elif kind < 0.5:
            step("recorder.event", span=r.choice(custom), name="happened", attributes=attributes())
        elif kind < 0.6:
            step("recorder.error", span=r.choice(custom), message="bad", exception=r.choice((None, {"type": "ValueError", "message": "no"})))
        elif kind < 0.75:
            step("span.add_attribute", span=r.choice(custom), name="late", value=value())
        elif kind < 0.85:
            if not scoped:
                timed()
        else:
            step("recorder.stop", span=custom.pop(), stop_event_attributes=attributes())
    if r.random() < 0.03:
        wrong()


def timed():
    cm = "cm%d" % len(steps)
    step("ctx.enter", cm=cm, context="timed_span", kwargs={"name": "timed", "span_attributes": attributes()})
    error = {"exception": {"type": "RuntimeError", "message": "boom"}} if r.random() < 0.3 else {}
    step("ctx.exit", cm=cm, **error)


def wrong():
    """Adds a call that is refused and changes nothing."""
    call = r.choice(("on_app_start", "on_model_init_end", "on_testing_end", "on_load_checkpoint_end", "on_save_checkpoint_end", "on_optimizer_init_end"))
    step(call)


def plain(key):
    step("on_%s_start" % key, **at("start_time_msec"))
    anything()
    step("on_%s_end" % key, **at("finish_time_msec"))


def iteration():
    if r.random() < 0.3:
        cm = "cm%d" % len(steps)
        step("ctx.enter", cm=cm, context="training_iteration", kwargs={})
        anything(True)
        step("ctx.exit", cm=cm)
    else:
        plain("training_single_iteration")


def validation():
    step("on_validation_start", **at("start_time_msec"))
    for _ in range(r.randint(0, 3)):
        plain("validation_single_iteration")
    step("on_validation_end")


def save(n, waits, late):
    step("on_save_checkpoint_start", global_step=n)
    anything()
    if r.random() < 0.8:
        if waits:
            step("on_save_checkpoint_success", global_step=n, **at("time_msec"))
        else:
            late.append(n)
    step("on_save_checkpoint_end", **at("finish_time_msec"))


def maybe_function(v):
    return {"$fn": v} if r.random() < 0.3 else v


def main():
    waits, throughput = r.random() < 0.5, r.random() < 0.5
    first = r.choice((0, 0, 7, 1000))
    training = {
        "perf_tag_or_fn": r.choice(("p", ["p", "q"])), "global_batch_size_or_fn": maybe_function(r.choice((1, 32, 2048))),
        "log_every_n_train_iterations": r.choice((1, 2, 3, 5, 50)), "is_log_throughput_enabled_or_fn": throughput,
        "save_checkpoint_strategy": "sync" if waits else "async",
    }  # fmt: skip
    if throughput:
        training.update(flops_per_sample_or_fn=maybe_function(r.choice((100, 3440640000000000))), train_iterations_target_or_fn=first + 100,
                        train_samples_target_or_fn=10000000)  # fmt: skip
    if r.random() < 0.5:
        training["seq_length_or_fn"] = maybe_function(2048)
    if r.random() < 0.3:
        training["custom_metadata"] = {"gpu": "x", "n": 8, "lr": 0.0003, "flag": True, "list": ["a", "b"]}
    base = {"application_name": "random", "session_tag_or_fn": maybe_function("s%d" % SEED), "world_size_or_fn": maybe_function(8)}
    late_config = r.random() < 0.2
    if not late_config:
        base["telemetry_config"] = training
    provider = {"base_config": base, "overrides": [], "exporters": [{"type": "file"}]}
    if r.random() < 0.5:
        names = r.sample(["training_single_iteration", "own", "application", "training_loop", "validation_loop", "checkpoint_save_sync"], 2)
        provider["export_customization"] = {"mode": r.choice(("WHITELIST_SPANS", "BLACKLIST_SPANS")), "span_name_filter": names}

    step("on_app_start", "app", **at("start_time_msec"))
    custom.append("$app")
    custom.remove("$app")
    if late_config:
        step("provider.set_training_telemetry_config", config=training)
    for key in ("distributed_init", "model_init", "optimizer_init", "dataloader_init", "load_checkpoint"):
        if r.random() < 0.4:
            plain(key)
    if r.random() < 0.1:
        save(0, waits, [])
    step("on_train_start", train_iterations_start=first, **at("start_time_msec"))
    late = []
    for i in range(r.randint(1, 12)):
        iteration()
        anything()
        if r.random() < 0.2:
            validation()
        if r.random() < 0.25:
            save(first + i + 1, waits, late)
        if late and r.random() < 0.5:
            step("on_save_checkpoint_success", global_step=late.pop(0))
    while custom:
        step("recorder.stop", span=custom.pop())
    if r.random() < 0.9:
        step("on_train_end", **at("finish_time_msec"))
    if r.random() < 0.3:
        plain("testing")
    step("on_app_end")
    scenario = {
        "name": "random_%d" % SEED, "clock": {"mode": "held", "epoch_msec": EPOCH, "perf_base_sec": 1000.0},
        "identity": {"node_name": "golden-host", "pid": 4242, "package_version": "2.3.1"}, "env": {"RANK": "0"},
        "provider": provider, "steps": steps,
    }  # fmt: skip
    print(json.dumps(scenario, indent=1))


main()
