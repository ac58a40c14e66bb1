"""Trainers of frameworks in one process, with small generated models and data."""

import os
import sys
import warnings

import small

warnings.filterwarnings("ignore")

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

WORK = os.environ["WORK"]


def data(n=16):
    return TensorDataset(torch.randn(n, 8), torch.randint(0, 2, (n,)))


class Rows(Dataset):
    def __init__(self, n):
        self.x = torch.randint(0, 32, (n, 8))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"input_ids": self.x[i], "labels": self.x[i]}


def trainer(**kwargs):
    """Hugging Face's Trainer: two epochs, with evaluation and a checkpoint after each."""
    from transformers import GPT2Config, GPT2LMHeadModel, PrinterCallback, Trainer, TrainingArguments

    model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=8, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=1))
    arguments = TrainingArguments(
        WORK, num_train_epochs=2, per_device_train_batch_size=4, per_device_eval_batch_size=4, eval_strategy="epoch", save_strategy="epoch",
        report_to=[], disable_tqdm=True, use_cpu=True, seed=7, logging_strategy="no", **kwargs)
    t = Trainer(model, arguments, train_dataset=Rows(16), eval_dataset=Rows(8))
    t.remove_callback(PrinterCallback)  # it prints durations
    t.train()
    for entry in t.state.log_history:
        for key in ("eval_loss", "train_loss"):
            if key in entry:
                small.say(entry[key])
    print("steps", t.state.global_step)


def trainer_accumulates():
    trainer(gradient_accumulation_steps=2)


def ignite():
    from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
    from ignite.handlers import Checkpoint, DiskSaver
    from ignite.metrics import Loss

    model = nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine = create_supervised_trainer(model, optimizer, F.cross_entropy)
    judge = create_supervised_evaluator(model, metrics={"loss": Loss(F.cross_entropy)})
    held_out = DataLoader(data(8), batch_size=4)
    engine.add_event_handler(Events.ITERATION_COMPLETED, lambda e: small.say(e.state.output))
    engine.add_event_handler(Events.EPOCH_COMPLETED, lambda e: small.say(judge.run(held_out).metrics["loss"]))
    engine.add_event_handler(Events.EPOCH_COMPLETED, Checkpoint({"model": model}, DiskSaver(WORK, require_empty=False), n_saved=2))
    engine.run(DataLoader(data(), batch_size=4), max_epochs=2)


def lightning(manual=False, **kwargs):
    import lightning

    class Lit(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net, self.automatic_optimization = nn.Linear(8, 2), not manual

        def training_step(self, batch, _):
            x, y = batch
            loss = F.cross_entropy(self.net(x), y)
            if manual:
                optimizer = self.optimizers()
                optimizer.zero_grad()
                self.manual_backward(loss)
                optimizer.step()
            small.say(loss)
            return loss

        def validation_step(self, batch, _):
            x, y = batch
            small.say(F.cross_entropy(self.net(x), y))

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    t = lightning.Trainer(
        accelerator="cpu", max_epochs=2, logger=False, enable_progress_bar=False, enable_model_summary=False, default_root_dir=WORK, num_sanity_val_steps=0, **kwargs)
    t.fit(Lit(), DataLoader(data(), batch_size=4), DataLoader(data(8), batch_size=4))
    print("steps", t.global_step)


def lightning_manual():
    lightning(manual=True)


def lightning_accumulates():
    lightning(accumulate_grad_batches=2)


def safe():
    """Saves as models of transformers do."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=8, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for row in DataLoader(Rows(8), batch_size=4):
        optimizer.zero_grad()
        loss = model(**row).loss
        loss.backward()
        optimizer.step()
        small.say(loss)
        model.save_pretrained(WORK)


if __name__ == "__main__":
    small.main(globals())
