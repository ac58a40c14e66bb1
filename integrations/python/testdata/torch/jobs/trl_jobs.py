"""TRL's trainers, with a tiny random model and generated data."""

import os
import sys
import time
import warnings

warnings.filterwarnings("ignore")
os.environ["HF_HUB_OFFLINE"] = "1"
WORK = os.environ["WORK"]

# datasets hashes modules too: by name only if they are in a site-packages folder.
sys.path[:] = [p for p in sys.path if not p.startswith("/opt/")]
for name in "trl", "huggingface":
    os.mkdir(os.path.join(WORK, name))
    os.symlink("/opt/" + name, os.path.join(WORK, name, "site-packages"))
    sys.path.insert(0, os.path.join(WORK, name, "site-packages"))

import small
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

OPTIONS = dict(
    output_dir=WORK, report_to=[], disable_tqdm=True, use_cpu=True, bf16=False, seed=7, logging_strategy="no", save_strategy="no", max_steps=6,
    per_device_train_batch_size=4, per_device_eval_batch_size=4, gradient_accumulation_steps=2, gradient_checkpointing=False, eval_strategy="steps", eval_steps=3)


def model():
    return GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=1, pad_token_id=0))


def tokenizer():
    words = ["<pad>", "<eos>", "<unk>"] + ["w%d" % i for i in range(61)]
    inner = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def sft():
    from trl import SFTConfig, SFTTrainer

    data = Dataset.from_dict({"text": ["w1 w2 w3 w%d" % (i % 60) for i in range(48)]})
    SFTTrainer(model(), SFTConfig(max_length=16, **OPTIONS), train_dataset=data, eval_dataset=data.select(range(8)), processing_class=tokenizer()).train()


def grpo():
    from trl import GRPOConfig, GRPOTrainer

    def reward(completions, **kwargs):
        time.sleep(0.02)
        return [float(len(c)) for c in completions]

    data = Dataset.from_dict({"prompt": ["w1 w2 w%d" % (i % 60) for i in range(48)]})
    config = GRPOConfig(num_generations=4, max_completion_length=12, **OPTIONS)
    GRPOTrainer(model(), reward, config, train_dataset=data, eval_dataset=data.select(range(4)), processing_class=tokenizer()).train()


if __name__ == "__main__":
    small.main(globals())
