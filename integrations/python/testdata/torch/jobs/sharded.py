"""Trainers of frameworks on two ranks."""

import os
import sys
import warnings

import small

small.launched(DS_ACCELERATOR="cpu", ACCELERATE_USE_CPU="true")
warnings.filterwarnings("ignore")

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

WORK = os.environ["WORK"]
RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 64), nn.Linear(64, 2)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


def data():
    torch.manual_seed(3)
    return TensorDataset(torch.randn(32, 8), torch.randint(0, 2, (32,)))


def accelerated(accumulate=1, model=None, save=False, **kwargs):
    from accelerate import Accelerator, DataLoaderConfiguration, InitProcessGroupKwargs

    accelerator = Accelerator(
        cpu=True, gradient_accumulation_steps=accumulate, dataloader_config=DataLoaderConfiguration(**kwargs),
        kwargs_handlers=[InitProcessGroupKwargs(backend="gloo")])
    loader = DataLoader(data(), batch_size=4)
    model = model or Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = F.cross_entropy(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        small.say(loss)
    if save:
        accelerator.save_state(os.path.join(WORK, "state"))
    accelerator.end_training()


def accelerate():
    accelerated(save=True)


def accelerate_accumulates():
    accelerated(2)


def accelerate_dispatches():
    """Rank 0 reads the data and sends it to the other ranks."""
    accelerated(dispatch_batches=True)


def deepspeed(stage=1):
    import deepspeed

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # otherwise compiled at the start
    deepspeed.utils.logger.setLevel("ERROR")  # its messages contain the time
    model = Net()
    engine, optimizer, loader, _ = deepspeed.initialize(
        model=model, training_data=data(), config={
            "train_micro_batch_size_per_gpu": 4, "optimizer": {"type": "SGD", "params": {"lr": 0.1}}, "zero_optimization": {"stage": stage},
            "zero_force_ds_cpu_optimizer": False, "zero_allow_untested_optimizer": True, "steps_per_print": 1 << 30})
    for x, y in loader:
        loss = F.cross_entropy(engine(x), y)
        engine.backward(loss)
        engine.step()
        small.say(loss)
    engine.save_checkpoint(WORK)
    dist.destroy_process_group()


def deepspeed2():
    deepspeed(2)


def deepspeed3():
    deepspeed(3)


def megatron(stages=1):
    """Uses Megatron's schedules: with one stage a loop over micro-batches, with two
    stages alternating forward and backward."""
    from megatron.core import ModelParallelConfig, parallel_state
    from megatron.core.enums import ModelType
    from megatron.core.pipeline_parallel import get_forward_backward_func

    # Megatron always requests CUDA by name.
    zeros = torch.zeros
    torch.zeros = lambda *size, device=None, **kwargs: zeros(*size, **kwargs)
    torch.cuda.current_device = lambda: torch.device("cpu")
    dist.init_process_group("gloo")
    parallel_state.initialize_model_parallel(1, stages)
    config = ModelParallelConfig(pipeline_dtype=torch.float32, deallocate_pipeline_outputs=False, batch_p2p_comm=False, batch_p2p_sync=False)
    config.hidden_size, config.fine_grained_activation_offloading = 8, False
    first, last = parallel_state.is_pipeline_first_stage(), parallel_state.is_pipeline_last_stage()

    class Stage(nn.Linear):
        config = None

        def set_input_tensor(self, tensor):
            self.given = tensor[0] if isinstance(tensor, list) else tensor

        def forward(self, x):
            return super().forward(x if first else self.given)

    torch.manual_seed(3)
    model = Stage(8, 8)
    model.config, model.model_type = config, ModelType.encoder_or_decoder
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(100)

    def forward_step(batches, model):
        y = model(next(batches))

        def loss_of(out):
            loss = out.square().mean()
            return loss, {"loss": loss.detach()}

        return y, loss_of

    run = get_forward_backward_func()
    for _ in range(4):
        optimizer.zero_grad()
        pieces = [torch.randn(4, 1, 8) for _ in range(4)]
        losses = run(
            forward_step_func=forward_step, data_iterator=iter(pieces), model=[model], num_microbatches=4, seq_length=4, micro_batch_size=1,
            decoder_seq_length=4, forward_only=False)
        optimizer.step()
        small.say(sum(loss["loss"] for loss in losses) if last else 0)
    small.say(model.weight.sum())
    dist.barrier()
    dist.destroy_process_group()


def megatron_stages():
    megatron(2)


if __name__ == "__main__":
    torch.manual_seed(7)
    torch.set_num_threads(1)
    globals()[sys.argv[1]]()
