"""Trains a small CNN on scikit-learn's handwritten digits to at least 97 % on the held-out fifth.

Runs as it is (`python train.py`), on any number of ranks (`torchrun --nproc-per-node 2 train.py`), and under mlcd,
which chooses machines and batch size, keeps its checkpoints and says when to end.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import mlcd

EPOCHS = 10_000 if "MLCD_TASK_ID" in os.environ else 40  # under mlcd the job's `work` says when to end
RANK = int(os.environ.get("RANK", "0"))
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1"))
BATCH_SIZE = mlcd.batch_size(64)  # of all ranks
OUTPUT = Path(os.environ.get("MLCD_OUTPUT_DIR", "outputs"))


def main() -> None:
    random.seed(0)
    torch.manual_seed(0)
    device = start_ranks()
    train_set, test_set = load_data()
    model = make_model().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3 * mlcd.lr_scale())
    resume(model, optimizer)
    trained = DistributedDataParallel(model) if WORLD_SIZE > 1 else model
    metrics = train(trained, model, optimizer, train_set, test_set, device)
    if RANK == 0:
        hand_back(model, metrics)
    if WORLD_SIZE > 1:
        dist.destroy_process_group()


def start_ranks() -> torch.device:
    """Join the other ranks, if there are any; the device to train on."""
    gpu = torch.cuda.is_available()
    if WORLD_SIZE > 1:
        dist.init_process_group("nccl" if gpu else "gloo", timeout=timedelta(minutes=2))
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if gpu else torch.device("cpu")


def load_data() -> tuple[TensorDataset, TensorDataset]:
    """Four fifths to train on, one to test with: 1437 and 360 images of 8 × 8 pixels."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
    train, test = order[:1437], order[1437:]
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(64 * 4 * 4, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def train(
    trained: nn.Module,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    train_set: TensorDataset,
    test_set: TensorDataset,
    device: torch.device,
) -> dict[str, float]:
    sampler = mlcd.ElasticSampler(train_set, batch_size=BATCH_SIZE)  # goes on where the last attempt stopped
    loader = DataLoader(train_set, batch_size=mlcd.local_batch_size(64), sampler=sampler)
    metrics: dict[str, float] = {}
    for epoch in range(sampler.epoch, EPOCHS):
        for images, labels in mlcd.steps(loader):
            loss = nn.functional.cross_entropy(trained(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            metrics["loss"] = loss.item()
            mlcd.report(loss=metrics["loss"])
        metrics["test_accuracy"] = accuracy(model, test_set, device)
        mlcd.report(test_accuracy=metrics["test_accuracy"])
        if RANK == 0:
            print(f"epoch {epoch} loss={metrics.get('loss', 0):.4f} test_accuracy={metrics['test_accuracy']:.4f}")
        if epoch % 10 == 9 or mlcd.stopping():
            save(model, optimizer)
        if mlcd.stopping():
            break
    return metrics


def accuracy(model: nn.Module, test_set: TensorDataset, device: torch.device) -> float:
    images, labels = test_set.tensors
    model.eval()
    with torch.no_grad():
        right: Tensor = model(images.to(device)).argmax(1).cpu() == labels
    model.train()
    return float(right.float().mean())


def save(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    with mlcd.checkpoint() as folder:
        torch.save(state, folder / "state.pt")


def resume(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Go on from the newest checkpoint, if there is one."""
    folder = mlcd.last_checkpoint()
    if folder is None:
        return
    state = torch.load(folder / "state.pt", map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])


def hand_back(model: nn.Module, metrics: dict[str, float]) -> None:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), OUTPUT / "model.pt")
    (OUTPUT / "metrics.json").write_text(json.dumps(metrics))
    for name in ("train.py", "predict.py"):  # what `mlcd predict` asks
        shutil.copy(Path(__file__).with_name(name), OUTPUT)


if __name__ == "__main__":
    main()
