"""A trainer with the functions of TRL's GRPO trainer, and generate of transformers."""

import importlib
import os
import sys
import tempfile

import torch

with tempfile.TemporaryDirectory() as folder:
    for path, text in {
        "transformers/generation/utils.py": """
import torch
class GenerationMixin:
    @torch.no_grad()
    def generate(self, x):
        for _ in range(3):
            x = self(x)
        return x
""",
        "trl/trainer/grpo_trainer.py": """
import torch
class GRPOTrainer:
    def _generate(self, prompts):
        return self.model.generate(prompts)
    def _calculate_rewards(self, completions):
        with torch.no_grad():
            return self.judge(completions)
""",
    }.items():
        os.makedirs(os.path.join(folder, os.path.dirname(path)))
        with open(os.path.join(folder, path), "w") as f:
            f.write(text)
    sys.path.insert(0, folder)
    utils = importlib.import_module("transformers.generation.utils")
    trl = importlib.import_module("trl.trainer.grpo_trainer")
    sys.path.remove(folder)


class Model(utils.GenerationMixin, torch.nn.Linear):
    pass


class Trainer(trl.GRPOTrainer):
    def __init__(self):
        self.model, self.judge = Model(8, 8), torch.nn.Linear(8, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def batches(self, n):
        """Requests a batch before it returns the previous one, as accelerate does."""
        it = iter(torch.utils.data.DataLoader(torch.randn(n, 8), batch_size=2))
        held = next(it)
        for batch in it:
            yield held
            held = batch
        yield held

    def train(self):
        for batch in self.batches(8):
            self.model.train()
            completions = self._generate(batch)
            rewards = self._calculate_rewards(completions)
            loss = (self.model(completions) * rewards).sum()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def evaluate(self):
        self.model.eval()
        for batch in self.batches(4):
            completions = self._generate(batch)
            self._calculate_rewards(completions)
            with torch.no_grad():
                self.model(completions)


trainer = Trainer()
for _ in range(2):
    trainer.train()
    trainer.evaluate()
trainer.model.generate(torch.randn(2, 8))
assert trl.GRPOTrainer._generate.__qualname__ == "GRPOTrainer._generate"
