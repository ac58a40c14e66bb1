"""Generation and rewards: the parts of reinforcement learning that are not forwards of the
training."""

from . import hooks


def _watch(owner, name, event):
    """Records a function in which models only generate or score: forwards inside of it are part
    of it."""
    fn, loop = vars(owner).get(name), hooks._loop
    if not callable(fn):
        return
    trains, evaluates = hooks.starter("rollout", event, "rollout"), hooks.starter("rollout", "evaluate." + event, "pipeline")

    def before(args, kwargs):
        if loop.here():
            loop.start_up.other()
            owner = args[0]
            if loop.generates(owner if hasattr(owner, "training") else owner.model):
                return evaluates()
        return trains()

    hooks.replace(owner, name, hooks.wrap(fn, before, hooks._end, hooks.PHASE))


def _transformers(module):
    _watch(module.GenerationMixin, "generate", "generate")


def _trl(module):
    """Records the trainers of TRL that generate. The time of their _generate includes that of a
    separate engine."""
    for name in ("GRPOTrainer", "RLOOTrainer"):
        trainer = vars(module).get(name)
        if trainer is not None:
            _watch(trainer, "_generate", "rollout")
            _watch(trainer, "_calculate_rewards", "reward")


MODULES = {"transformers.generation.utils": _transformers, "trl.trainer.grpo_trainer": _trl, "trl.trainer.rloo_trainer": _trl}
