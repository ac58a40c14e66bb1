"""Ways to write a checkpoint: after each of three updates, below the folder WORK."""

import concurrent.futures
import io
import os
import sys

import small

if sys.argv[1].startswith("dcp"):
    small.launched()

import torch
import torch.nn as nn
import torch.nn.functional as F

PATH = os.path.join(os.environ["WORK"], "step%d")


class Late:
    """An object that takes long to pickle."""

    def __reduce__(self):
        small.slow("capture")
        return Late, ()


def train(save):
    torch.manual_seed(7)
    model = nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(torch.randn(8, 8)), torch.randint(0, 2, (8,)))
        loss.backward()
        optimizer.step()
        save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "late": Late()}, PATH % step)
        small.say(loss)
    return model, optimizer


def path():
    model, _ = train(torch.save)
    state = torch.load(PATH % 2, weights_only=False)
    model.load_state_dict(state["model"])
    small.say(model.weight.sum())


def atomic():
    """Writes a temporary file, and renames it."""

    def save(state, path):
        torch.save(state, path + ".new")
        os.replace(path + ".new", path)

    train(save)


def stream():
    def save(state, path):
        with open(path, "wb") as f:
            torch.save(state, f)

    train(save)


def buffer():
    """Serializes in memory; the program writes the bytes itself."""

    def save(state, path):
        b = io.BytesIO()
        torch.save(state, b)
        with open(path, "wb") as f:
            f.write(b.getbuffer())

    train(save)


def pool():
    """Saves in a thread of the program, and waits for it before the next save."""
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        pending = []

        def save(state, path):
            if pending:
                pending.pop().result()
            pending.append(threads.submit(torch.save, state, path))

        train(save)


def safe():
    from safetensors.torch import load_file, save_file

    model, _ = train(lambda state, path: save_file(state["model"], path))
    model.load_state_dict(load_file(PATH % 2))
    small.say(model.weight.sum())


def tensors(state):
    return {"model": state["model"]}


def dcp_id():
    import torch.distributed.checkpoint as dcp

    model, _ = train(lambda state, path: dcp.save(tensors(state), checkpoint_id=path))
    dcp.load({"model": model.state_dict()}, checkpoint_id=PATH % 2)
    small.say(model.weight.sum())


def dcp_writer():
    import torch.distributed.checkpoint as dcp

    model, _ = train(lambda state, path: dcp.save(tensors(state), storage_writer=dcp.FileSystemWriter(path)))
    dcp.load({"model": model.state_dict()}, storage_reader=dcp.FileSystemReader(PATH % 2))
    small.say(model.weight.sum())


def dcp_async(**kwargs):
    import torch.distributed.checkpoint as dcp

    pending = []

    def save(state, path):
        if pending:
            pending.pop().result()
        pending.append(dcp.async_save(tensors(state), checkpoint_id=path, **kwargs))

    train(save)
    pending.pop().result()


def dcp_async_process():
    from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

    dcp_async(async_checkpointer_type=AsyncCheckpointerType.PROCESS)


if __name__ == "__main__":
    torch.set_num_threads(1)
    if "RANK" in os.environ:
        import torch.distributed as dist

        dist.init_process_group("gloo")
    globals()[sys.argv[1]]()
    if "RANK" in os.environ:
        dist.barrier()
        dist.destroy_process_group()
