"""A regression over any number of ranks: the program that the tests train on emulated hosts.

Batch k is drawn from seed k, so the same steps give the same model on one rank, on two, and after any number of restarts.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import mlcd

BATCH, FEATURES = 32, 16
EVERY = 10  # steps between two checkpoints
PAUSE_SECONDS = float(os.environ.get("PAUSE_SECONDS", "0.04"))


def main() -> None:
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    steps = int(os.environ["MLCD_WORK_SAMPLES"]) // BATCH
    model, optimizer = make_model()
    done = resume(model, optimizer)
    dist.init_process_group("gloo", timeout=timedelta(minutes=5))  # whoever waits is ended by mlcd, not by this
    trained = DistributedDataParallel(model)
    for inputs, targets in mlcd.steps([batch_of(step, rank, ranks) for step in range(done, steps)]):
        learn(trained, optimizer, inputs, targets)
        done += 1
        time.sleep(PAUSE_SECONDS)
        if done % EVERY == 0:
            save(model, optimizer, done)
    if done >= steps and rank == 0:
        output = Path(os.environ["MLCD_OUTPUT_DIR"])
        output.mkdir(parents=True, exist_ok=True)
        torch.save({"model": model.state_dict(), "steps": done}, output / "model.pt")


def make_model() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, 1))
    return model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def batch_of(step: int, rank: int, ranks: int) -> tuple[Tensor, Tensor]:
    inputs = torch.randn(BATCH, FEATURES, generator=torch.Generator().manual_seed(step))
    share = inputs[rank::ranks]
    return share, share.sum(1, keepdim=True).sin()


def learn(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: Tensor, targets: Tensor) -> None:
    optimizer.zero_grad()
    nn.functional.mse_loss(model(inputs), targets).backward()
    optimizer.step()


def save(model: nn.Module, optimizer: torch.optim.Optimizer, done: int) -> None:
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "steps": done}
    with mlcd.checkpoint() as folder:
        torch.save(state, folder / "state.pt")


def resume(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Go on from the newest checkpoint; gives the steps done."""
    folder = mlcd.last_checkpoint()
    if folder is None:
        return 0
    state = torch.load(folder / "state.pt")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["steps"])


def undisturbed(steps: int) -> dict[str, Tensor]:
    """The model as one rank makes it, without mlcd."""
    model, optimizer = make_model()
    for step in range(steps):
        learn(model, optimizer, *batch_of(step, 0, 1))
    return dict(model.state_dict())


if __name__ == "__main__":
    main()
