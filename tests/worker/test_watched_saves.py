"""The count at the moment at which a program saves to a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from worker.programs import finish, start
from worker.sessions import lines


def notes(folder: Path) -> dict[float, float]:
    """What was noted of the program's saves: the time of the file's change, and the samples of the job."""
    return {at: samples for line in lines(folder / "progress") for at, samples in [line.get("saved", (0, 0))] if at}


def said(output: str) -> dict[float, float]:
    """What the program itself said of its saves."""
    words = (line.split() for line in output.splitlines() if line.startswith("saved "))
    return {float(changed): float(samples) for _, changed, samples in words}


SAVING = """
import os, time
from pathlib import Path
Path("saved").mkdir()
def save(samples):
    Path("saved/state.txt.new").write_text(str(samples))
    os.replace("saved/state.txt.new", "saved/state.txt")
    print("saved", repr(os.stat("saved/state.txt").st_mtime_ns / 1e9), samples, flush=True)
"""

TORCH = (
    SAVING
    + """
import torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
done = 0
for epoch in range(4):
    for (x,) in DataLoader(TensorDataset(torch.randn(320, 4)), batch_size=16):
        loss = model(x).pow(2).mean()
        loss.backward()
        time.sleep(0.02)  # a larger model
        optimizer.step()
        optimizer.zero_grad()
        done += len(x)
        if done % 208 == 0:
            save(done)
    save(done)
    time.sleep(0.3)
"""
)


@pytest.mark.slow
def test_each_save_of_an_unchanged_torch_program_is_noted_with_its_exact_count(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    where = {"MLCD_CHECKPOINT_PATH": "saved", "MLCD_WORKDIR": tmp_path, "MLCD_SAMPLES_BEFORE": 1000}
    told = said(finish(start(TORCH, tmp_path, **where)))
    noted = notes(tmp_path)
    assert len(noted) >= 4
    assert max(noted.values()) == 1000 + 4 * 320
    assert {at: samples - 1000 for at, samples in noted.items()} == {at: told[at] for at in noted}


# Steps of less than a tick of the files' clock: only who saw the save begin can tell between which two it was.
FAST = """
import os, time
from pathlib import Path
import torch
Path("saved").mkdir()
weights = torch.nn.Parameter(torch.zeros(4))
optimizer = torch.optim.SGD([weights], lr=0.01)
weights.grad = torch.ones(4)
for step in range(1, 4001):
    optimizer.step()
    if step % 400 == 0:
        if step % 800:
            torch.save({"step": step}, "saved/state")
        else:
            Path("saved/draft").write_text(str(step))
            os.replace("saved/draft", "saved/state")
        print("saved", repr(os.stat("saved/state").st_mtime_ns / 1e9), 8 * step, flush=True)
    if step % 400 == 390:
        time.sleep(0.3)
"""


@pytest.mark.slow
def test_a_save_between_very_short_steps_is_noted_with_its_exact_count(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    where = {"MLCD_CHECKPOINT_PATH": "saved", "MLCD_WORKDIR": tmp_path, "MLCD_LOCAL_BATCH_SIZE": 8}
    told = said(finish(start(FAST, tmp_path, **where)))
    noted = notes(tmp_path)
    assert len(noted) >= 4
    assert noted == {at: told[at] for at in noted}


LOOP = (
    SAVING
    + """
import mlcd
done = 0
for epoch in range(3):
    for number, batch in enumerate(mlcd.steps([[0] * 10] * 20)):
        time.sleep(0.02)
        done += len(batch)
        if number == 9:
            save(done)
            time.sleep(0.3)
    save(done)
    time.sleep(0.3)
"""
)


@pytest.mark.slow
def test_a_save_within_a_loop_holds_the_batch_in_hand_and_one_after_it_no_more(tmp_path: Path) -> None:
    told = said(finish(start(LOOP, tmp_path, MLCD_CHECKPOINT_PATH="saved", MLCD_WORKDIR=tmp_path)))
    noted = notes(tmp_path)
    assert max(noted.values()) == 600
    assert {at: told[at] for at in noted} == noted


@pytest.mark.slow
def test_a_program_that_saves_nowhere_is_not_looked_at(tmp_path: Path) -> None:
    finish(start(LOOP, tmp_path))
    assert notes(tmp_path) == {}


COMPILED = """
import torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

@torch.compile(backend="eager")
def step(x):
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

for epoch in range(2):
    for (x,) in DataLoader(TensorDataset(torch.randn(160, 4)), batch_size=16):
        step(x)
"""


@pytest.mark.slow
def test_the_last_step_of_a_compiled_program_is_counted(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    finish(start(COMPILED, tmp_path))
    assert lines(tmp_path / "progress")[-1]["samples"] == 320
