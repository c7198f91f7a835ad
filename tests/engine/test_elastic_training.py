"""A real training that moves from one node to two and back is the same training."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from mlcd.api import Client
from mlcd.core.run import AttemptEnd, JobState
from small_jobs import MakeJob

pytest.importorskip("torch")

SIZE, BATCH, STEPS = 330, 30, 250  # samples in an epoch, in a step; steps in all

PROGRAM = f"""
import json, os, time
from pathlib import Path
import torch
import torch.distributed as dist
from torch import nn
import mlcd

RANK, RANKS = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
torch.set_num_threads(1)
torch.manual_seed(0)
if RANKS > 1:
    dist.init_process_group("gloo")
x = torch.randn({SIZE}, 6)
y = torch.sin(x.sum(1, keepdim=True)) + 0.1 * torch.randn({SIZE}, 1)
model = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
saved, step = mlcd.last_checkpoint(), 0
if saved is not None:
    state = torch.load(saved / "state.pt")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    step = state["step"]
trained = nn.parallel.DistributedDataParallel(model) if RANKS > 1 else model
sampler = mlcd.ElasticSampler({SIZE}, seed=3, batch_size={BATCH})
diary = Path(os.environ["DIARY"], f"{{os.environ.get('MLCD_TASK_ID', 'plain')}}-{{RANK}}.jsonl").open("w")


def batches():
    while step < {STEPS}:
        indices = []
        for index in sampler:
            indices.append(index)
            if len(indices) == mlcd.local_batch_size({BATCH}):
                yield torch.tensor(indices)
                indices = []


for batch in mlcd.steps(batches()):
    loss = nn.functional.mse_loss(trained(x[batch]), y[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    diary.write(json.dumps({{"step": step, "samples": batch.tolist(), "loss": loss.item()}}) + chr(10))
    diary.flush()
    mlcd.report(loss=loss.item())
    time.sleep(0.02)
with mlcd.checkpoint() as folder:
    torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}}, folder / "state.pt")
if RANKS > 1:
    dist.destroy_process_group()
"""


@dataclass(frozen=True)
class Diary:
    """What a training did at each step, all ranks together."""

    samples: list[list[int]]  # in the order of the tape: a sample of each rank in turn
    losses: list[float]


def read_diary(folder: Path) -> Diary:
    steps: dict[int, list[tuple[str, dict[str, object]]]] = defaultdict(list)
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            entry = json.loads(line)
            steps[entry["step"]].append((file.stem, entry))
    assert sorted(steps) == list(range(1, len(steps) + 1))
    samples, losses = [], []
    for number in sorted(steps):
        ranks = [entry for _, entry in sorted(steps[number], key=lambda each: each[0])]
        in_turn = zip(*(rank["samples"] for rank in ranks), strict=True)  # type: ignore[arg-type]  # a list
        samples.append([sample for turn in in_turn for sample in turn])
        losses.append(sum(float(str(rank["loss"])) for rank in ranks) / len(ranks))
    return Diary(samples, losses)


def train_plainly(program: Path, folder: Path) -> Diary:
    """One process that knows of no mlcd."""
    folder.mkdir()
    env = {**os.environ, "DIARY": str(folder)}
    subprocess.run([sys.executable, str(program)], check=True, env=env, timeout=300)
    diary = read_diary(folder)  # it ends with its epoch
    return Diary(diary.samples[:STEPS], diary.losses[:STEPS])


def move_once(client: Client, job_id: str, nodes: int, after_samples: float) -> None:
    """Have it go on with so many nodes, once so much is done in an attempt on another number."""
    for view in client.follow(job_id):
        now = view.run.attempts[-1] if view.run.attempts else None
        if now is not None and now.deployment.nodes != nodes and now.samples > after_samples:
            client.move(job_id, nodes=nodes)
            return
    raise AssertionError(f"it ended before it could be moved: {view.record.error}")


@pytest.mark.slow
def test_a_training_that_moves_from_one_node_to_two_and_back_is_the_same_training(
    client: Client, make_job: MakeJob, tmp_path: Path
) -> None:
    diary = tmp_path / "diary"
    diary.mkdir()
    job = make_job(
        PROGRAM,
        platform="pytorch",
        num_nodes="1..2",
        batch_size=BATCH,
        work={"samples": STEPS * BATCH},
        envs={"DIARY": str(diary)},
        search={"strategy": "random", "max_probes": 1, "options": {"k": 1}},
        probe={"warmup_seconds": 0.1, "min_seconds": 0.2, "max_seconds": 0.5, "silent_seconds": 120},
        checkpoint={"grace_seconds": 30},
        elastic=False,
    )
    job_id = client.submit(client.load(job))
    client.confirm(job_id)
    client.start(job_id)
    first = next(view.record.deployment.nodes for view in client.follow(job_id) if view.record.plan)
    other = 3 - first
    move_once(client, job_id, other, after_samples=20 * BATCH)
    move_once(client, job_id, first, after_samples=20 * BATCH)
    view = list(client.follow(job_id))[-1]
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert [a.end for a in view.run.attempts] == [AttemptEnd.MOVED, AttemptEnd.MOVED, AttemptEnd.FINISHED]
    assert [a.deployment.nodes for a in view.run.attempts] == [first, other, first]

    moved, plain = read_diary(diary), train_plainly(Path(str(job["workdir"]), "train.py"), tmp_path / "plain")
    tape = [sample for step in moved.samples for sample in step]
    assert len(tape) == STEPS * BATCH
    epochs = [tape[start : start + SIZE] for start in range(0, len(tape) - SIZE + 1, SIZE)]
    assert all(sorted(epoch) == list(range(SIZE)) for epoch in epochs)  # none lost, none seen twice
    assert moved.samples == plain.samples
    assert moved.losses == pytest.approx(plain.losses, rel=1e-3, abs=1e-5)
    assert plain.losses[-1] < plain.losses[0] / 2  # there was something to learn
