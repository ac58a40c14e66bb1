"""Trains with Lightning and one-logger's callback, installed as the argument says, and prints
the names of the records that the file exporter wrote."""

import collections
import json
import os
import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

from trainspan import onelogger as log
from trainspan.onelogger.training_telemetry.integration.pytorch_lightning import OneLoggerPTLTrainer, TimeEventCallback, hook_trainer_cls

HOW, WORK = sys.argv[1], Path(os.environ["WORK"])


class Module(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, i):
        if HOW == "raises" and i == 2:
            raise ValueError("boom")
        return self.layer(batch[0]).sum()

    def validation_step(self, batch, i):
        self.layer(batch[0])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


provider = log.TrainingTelemetryProvider.instance()
provider.with_base_config(log.OneLoggerConfig(
    application_name="lit", session_tag_or_fn="s", world_size_or_fn=1,
    telemetry_config=log.TrainingTelemetryConfig(perf_tag_or_fn="p", global_batch_size_or_fn=4, log_every_n_train_iterations=2),
)).with_export_customization(log.ExportCustomizationMode.EXPORT_ALL_SPANS, None).with_exporter(log.FileExporter(WORK / "t.jsonl")).configure_provider()  # fmt: skip

arguments = dict(max_epochs=2, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
                 default_root_dir=WORK, enable_checkpointing=False, num_sanity_val_steps=0)  # fmt: skip
if HOW in ("callback", "raises"):
    callback = TimeEventCallback(provider)
    trainer = pl.Trainer(callbacks=[callback], **arguments)
elif HOW == "hook":
    cls, callback = hook_trainer_cls(pl.Trainer, provider)
    trainer = cls(**arguments)
else:
    trainer = OneLoggerPTLTrainer(arguments, provider)
    callback = trainer.nv_one_logger_callback
    assert "callbacks" not in arguments
callback.on_model_init_start()
model = Module()
callback.on_model_init_end()
loader = DataLoader(TensorDataset(torch.randn(16, 4)), batch_size=4)
try:
    trainer.fit(model, loader, loader)
except ValueError as e:
    print("raised", e)
trainer.save_checkpoint(WORK / "model.ckpt")
callback.on_app_end()
counts = collections.Counter()
for line in (WORK / "t.jsonl").read_text().splitlines():
    record = json.loads(line)
    if record["type"] in ("stop", "complete"):
        counts[record["name"]] += 1
    elif "event" in record:
        counts[record["event"]["name"]] += 1
    else:
        counts[record["type"]] += record["type"] == "telemetry_data_error"
print(json.dumps({k: v for k, v in sorted(counts.items()) if v}))
