"""Trains a character-level RNN on the source of Python's own standard library to a validation loss of 1.6 nats.

A sample is a passage of 64 characters. Every tenth file is held out for validation.
"""

from __future__ import annotations

import json
import os
import sysconfig
from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

import mlcd

LENGTH = 64
HIDDEN = int(os.environ.get("HIDDEN", "192"))
VALIDATE_EVERY = 3200  # samples
MOST_STEPS = 10_000_000 if "MLCD_TASK_ID" in os.environ else 800  # under mlcd the job's `work` says when to end
RANK = int(os.environ.get("RANK", "0"))
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1"))
BATCH_SIZE = mlcd.batch_size(32)  # of all ranks
OUTPUT = Path(os.environ.get("MLCD_OUTPUT_DIR", "outputs"))


class Passages(Dataset[Tensor]):
    """The text, cut into passages that share one character with the next: it is only read there."""

    def __init__(self, text: Tensor) -> None:
        self.text = text

    def __len__(self) -> int:
        return (len(self.text) - 1) // LENGTH

    def __getitem__(self, number: int) -> Tensor:
        if not 0 <= number < len(self):
            raise IndexError(number)
        return self.text[number * LENGTH : (number + 1) * LENGTH + 1]


class CharRNN(nn.Module):
    def __init__(self, hidden: int = HIDDEN) -> None:
        super().__init__()
        self.embed = nn.Embedding(128, 64)
        self.rnn = nn.GRU(64, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 128)

    def forward(self, characters: Tensor) -> Tensor:
        """The scores of each next character."""
        states, _ = self.rnn(self.embed(characters))
        return self.out(states)


def loss_of(model: nn.Module, passages: Tensor) -> Tensor:
    """The mean loss, in nats, of each next character."""
    scores = model(passages[:, :-1])
    return nn.functional.cross_entropy(scores.flatten(0, 1), passages[:, 1:].flatten())


def main() -> None:
    torch.manual_seed(0)
    device = start_ranks()
    train_text, valid_text = load_text()
    model = CharRNN().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3 * mlcd.lr_scale())
    first_step = resume(model, optimizer)
    trained = DistributedDataParallel(model) if WORLD_SIZE > 1 else model
    held_out = Passages(valid_text)
    valid = torch.stack([held_out[number * len(held_out) // 256] for number in range(256)]).to(device)
    metrics = train(trained, model, optimizer, train_text, valid, first_step, device)
    if RANK == 0:
        hand_back(model, metrics)
    if WORLD_SIZE > 1:
        dist.destroy_process_group()


def start_ranks() -> torch.device:
    gpu = torch.cuda.is_available()
    if WORLD_SIZE > 1:
        dist.init_process_group("nccl" if gpu else "gloo", timeout=timedelta(minutes=2))
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if gpu else torch.device("cpu")


def load_text() -> tuple[Tensor, Tensor]:
    """The modules of the standard library as numbers below 128: to train on, and to validate with."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    held_out = files[::10]
    return as_numbers([file for file in files if file not in held_out]), as_numbers(held_out)


def as_numbers(files: list[Path]) -> Tensor:
    text = b"\n".join(file.read_text(errors="ignore").encode("ascii", "ignore") for file in files)
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long()


def train(
    trained: nn.Module,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    text: Tensor,
    valid: Tensor,
    first_step: int,
    device: torch.device,
) -> dict[str, float]:
    passages = Passages(text)
    sampler = mlcd.ElasticSampler(passages, batch_size=BATCH_SIZE)  # goes on where the last attempt stopped
    batches = forever(DataLoader(passages, batch_size=mlcd.local_batch_size(32), sampler=sampler))
    metrics: dict[str, float] = {}
    step = first_step
    while step < MOST_STEPS and not mlcd.stopping():
        for batch in mlcd.steps(islice(batches, max(1, VALIDATE_EVERY // BATCH_SIZE))):
            loss = loss_of(trained, batch.to(device))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            metrics["loss"] = loss.item()
            mlcd.report(loss=metrics["loss"])
        metrics["val_loss"] = validate(model, valid)
        mlcd.report(val_loss=metrics["val_loss"])
        if RANK == 0:
            print(
                f"step {step} loss={metrics.get('loss', 0):.4f} val_loss={metrics['val_loss']:.4f}",
                flush=True,
            )
        save(model, optimizer, step)
    return metrics


def forever(loader: DataLoader[Tensor]) -> Iterator[Tensor]:
    while True:
        yield from loader


def validate(model: nn.Module, valid: Tensor) -> float:
    model.eval()
    with torch.no_grad():
        loss = float(loss_of(model, valid))
    model.train()
    return loss


def save(model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    with mlcd.checkpoint() as folder:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        torch.save(state, folder / "state.pt")


def resume(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Go on from the newest checkpoint; the step to begin with."""
    folder = mlcd.last_checkpoint()
    if folder is None:
        return 0
    state = torch.load(folder / "state.pt", map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])


def hand_back(model: nn.Module, metrics: dict[str, float]) -> None:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), OUTPUT / "model.pt")
    (OUTPUT / "metrics.json").write_text(json.dumps(metrics))


if __name__ == "__main__":
    main()
