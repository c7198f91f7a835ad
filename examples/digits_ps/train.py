"""Trains a small network on scikit-learn's handwritten digits with parameter servers, in plain torch.distributed.

Each server keeps a share of the parameters. A worker fetches them, reckons the gradient of its own batch, and sends every
server its share, which steps at once: nobody waits for anybody but a server for the next message. Started by mlcd
with `topology: ps`, which says by MLCD_ROLE who is who; the workers' ranks come first.
"""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

import mlcd

RANK = int(os.environ["RANK"])
WORKERS = int(os.environ["MLCD_WORKERS"])
SERVERS = int(os.environ["MLCD_SERVERS"])
OUTPUT = Path(os.environ.get("MLCD_OUTPUT_DIR", "outputs"))
RATE = 0.05
FETCH, STEP, LEAVE = 0.0, 1.0, 2.0  # what a worker says first


def main() -> None:
    torch.manual_seed(0)
    dist.init_process_group("gloo", timeout=timedelta(minutes=5))
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    resume(model)  # on all, so that the servers begin where the last checkpoint ended
    if os.environ["MLCD_ROLE"] == "server":
        serve(parts(parameters_to_vector(model.parameters()).detach())[RANK - WORKERS].clone())
    else:
        work(model)
    dist.destroy_process_group()


def parts(everything: Tensor) -> list[Tensor]:
    """The share of each server."""
    return list(everything.tensor_split(SERVERS))


def serve(share: Tensor) -> None:
    """Answer the workers, whoever comes first, until all have left."""
    left = 0
    message = torch.empty(1)
    while left < WORKERS:
        worker = dist.recv(message)
        if message.item() == FETCH:
            dist.send(share, worker)
        elif message.item() == STEP:
            gradient = torch.empty_like(share)
            dist.recv(gradient, worker)
            share -= RATE * gradient
        else:
            left += 1


def work(model: nn.Module) -> None:
    train_set, test_set = load_data()
    own = torch.Generator().manual_seed(RANK)
    sampler = RandomSampler(train_set, replacement=True, num_samples=10**9, generator=own)
    loader = DataLoader(train_set, batch_size=mlcd.local_batch_size(64 // WORKERS), sampler=sampler)
    for step, (images, labels) in enumerate(mlcd.steps(loader)):  # ends when the work of all is done
        fetch(model)
        loss = nn.functional.cross_entropy(model(images), labels)
        model.zero_grad()
        loss.backward()
        push(model)
        mlcd.report(loss=loss.item())
        if step % 200 == 199:
            save(model)
    fetch(model)
    if mlcd.stopping():
        save(model)
    if RANK == 0:
        hand_back(model, test_set)
    tell(LEAVE)


def tell(word: float) -> None:
    for server in range(SERVERS):
        dist.send(torch.tensor([word]), WORKERS + server)


def fetch(model: nn.Module) -> None:
    """Take the servers' parameters for our own."""
    everything = parameters_to_vector(model.parameters()).detach().clone()
    tell(FETCH)
    for server, share in enumerate(parts(everything)):
        dist.recv(share, WORKERS + server)
    vector_to_parameters(everything, model.parameters())


def push(model: nn.Module) -> None:
    """Send each server its share of the gradient."""
    gradient = parameters_to_vector([weight.grad for weight in model.parameters() if weight.grad is not None])
    tell(STEP)
    for server, share in enumerate(parts(gradient)):
        dist.send(share.contiguous(), WORKERS + server)


def load_data() -> tuple[TensorDataset, TensorDataset]:
    """Four fifths to train on, one to test with."""
    digits = load_digits()
    images, labels = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
    train, test = order[:1437], order[1437:]
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


def save(model: nn.Module) -> None:
    with mlcd.checkpoint() as folder:
        torch.save(model.state_dict(), folder / "state.pt")


def resume(model: nn.Module) -> None:
    folder = mlcd.last_checkpoint()
    if folder is not None:
        model.load_state_dict(torch.load(folder / "state.pt"))


def hand_back(model: nn.Module, test_set: TensorDataset) -> None:
    images, labels = test_set.tensors
    with torch.no_grad():
        accuracy = float((model(images).argmax(1) == labels).float().mean())
    OUTPUT.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), OUTPUT / "model.pt")
    (OUTPUT / "metrics.json").write_text(json.dumps({"test_accuracy": accuracy}))
    print(f"test_accuracy={accuracy:.4f}")


if __name__ == "__main__":
    main()
