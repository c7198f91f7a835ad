"""How much is done twice where functions are lost: one iteration with mlcd.sync, one checkpoint interval without."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from function_tasks import Field, log_of
from function_trainings import PROGRAM, curve, one_process, training
from mlcd.clouds.tasks.processes import marked
from mlcd.core.task import Handle, Task, TaskFolder, TaskState

pytestmark = pytest.mark.slow

HOME_SECONDS = 1.5  # for a save to come home from where it was made, on a busy machine


def done(folder: Path, rank: int) -> dict[int, list[float]]:
    """Step → when this rank did it, each time."""
    times = defaultdict(list)
    for line in (folder / f"rank-{rank}").read_text().splitlines():
        step, moment = line.split()
        times[int(step)].append(float(moment))
    return dict(times)


def again(folder: Path, rank: int) -> dict[int, list[float]]:
    """Of these, the steps that were done more than once."""
    return {step: times for step, times in done(folder, rank).items() if len(times) > 1}


def kill_after(field: Field, handle: Handle, folder: Path, steps: int, chance: random.Random) -> None:
    """Kill one function once so many steps are done, wherever in an iteration it is, and wait until that is known."""
    field.wait(handle, lambda _: (folder / "rank-0").is_file() and max(done(folder, 0), default=0) >= steps)
    losses = field.state(handle).losses
    time.sleep(chance.random() * 0.2)
    at_work = [place for place in sorted(field.environments()) if any(map(trains, marked(place)))]
    for pid in marked(chance.choice(at_work)):
        os.kill(pid, signal.SIGKILL)
    field.wait(handle, lambda _: field.state(handle).losses > losses)


def trains(pid: int) -> bool:
    """Whether this process is one of the program's."""
    try:
        return b"train.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def folder_of(tmp_path: Path) -> Path:
    folder = tmp_path / "done"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("seed", [1, 2])
def test_a_lost_function_throws_no_rank_back_by_more_than_one_iteration(fields: Any, tmp_path: Path, seed: int) -> None:
    field, folder, chance = fields(straggler_seconds=60.0), folder_of(tmp_path), random.Random(seed)
    task = training(field, tmp_path, STEPS="80", PAUSE="0.2", KEEP="1", SAVE="1000", DONE=str(folder))
    handle = field.launch(task, nodes=2)
    losses = (15, 40)
    for steps in losses:
        kill_after(field, handle, folder, steps, chance)
    status, state = field.wait(handle), field.state(handle)
    assert status.state is TaskState.SUCCEEDED, (status, log_of(task))
    assert state.losses == len(losses), state.notes
    for rank in range(2):
        # A rank that is killed before it has noted a step may find it done by the other: it is not done again.
        assert len(done(folder, rank)) >= 80 - len(losses)
        assert sum(len(times) - 1 for times in again(folder, rank).values()) <= len(losses), state.notes
        assert all(len(times) == 2 for times in again(folder, rank).values()), "no step three times"
    assert {*done(folder, 0), *done(folder, 1)} == set(range(1, 81))
    expected, seen = one_process(tmp_path, 80), curve(log_of(task))  # a killed function's last line may be missing
    assert seen == pytest.approx({step: expected[step] for step in seen}, rel=1e-9)
    assert max(seen) == 80
    assert status.progress.samples == 80 * 32


def test_without_what_is_kept_a_loss_costs_everything_since_the_checkpoint(fields: Any, tmp_path: Path) -> None:
    field, folder = fields(straggler_seconds=60.0), folder_of(tmp_path)
    task = training(field, tmp_path, STEPS="60", PAUSE="0.2", SAVE="1000", DONE=str(folder))
    handle = field.launch(task, nodes=2)
    kill_after(field, handle, folder, 15, random.Random(1))
    status = field.wait(handle)
    assert status.state is TaskState.SUCCEEDED, (status, log_of(task))
    assert min(len(again(folder, rank)) for rank in range(2)) >= 15


def test_functions_whose_time_is_up_do_nothing_twice(fields: Any, tmp_path: Path) -> None:
    field, folder = fields(duration_seconds=10, margin_seconds=4.0, straggler_seconds=60.0), folder_of(tmp_path)
    task = training(field, tmp_path, STEPS="60", PAUSE="0.15", KEEP="1", SAVE="1000", DONE=str(folder))
    status = field.run(task, nodes=2)
    assert status.state is TaskState.SUCCEEDED, (status, log_of(task))
    assert field.state(task.id).restarts >= 1
    assert [again(folder, rank) for rank in range(2)] == [{}, {}]


def test_a_lost_function_throws_a_ddp_program_back_by_one_interval_at_the_most(fields: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    field, folder = fields(straggler_seconds=60.0), folder_of(tmp_path)
    task = replace(ddp(field, tmp_path, STEPS="260", PAUSE="0.1", DONE=str(folder)), loss_seconds=900.0)
    handle = field.launch(task, nodes=2)
    field.wait(handle, lambda _: len(saves(task)) >= 2)
    every = saving(task)[0]
    time.sleep(0.7 * every)
    killed_at = time.time()
    kill_after(field, handle, folder, 1, random.Random(3))
    status = field.wait(handle)
    assert status.state is TaskState.SUCCEEDED, (status, log_of(task), log_of(task, 1))
    assert status.progress.saving is not None
    assert 0.0 < every < 30.0
    for rank in range(2):
        lost = [times[0] for times in again(folder, rank).values()]
        assert lost, f"nothing was lost: the kill at {killed_at} came right after a save"
        assert max(lost) - min(lost) <= every + HOME_SECONDS, (lost, saves(task), killed_at)


def ddp(field: Field, tmp_path: Path, **envs: str) -> Task:
    workdir = tmp_path / "program"
    workdir.mkdir()
    shutil.copy(PROGRAM, workdir)
    shutil.copy(PROGRAM.with_name("ddp_program.py"), workdir / "train.py")
    return field.task("python train.py", workdir=str(workdir), platform="pytorch", envs=envs, samples=260.0 * 8)


def saves(task: Task) -> list[float]:
    """When the program saved."""
    log = TaskFolder(Path(task.folder)).log()
    return (
        [float(moment) for moment in re.findall(r"^saved \d+ at (\S+)$", log.read_text(), re.M)]
        if log.is_file()
        else []
    )


def saving(task: Task) -> list[float]:
    """How often the program saves, as it reported last: interval, what a save takes, time between two losses."""
    lines = (TaskFolder(Path(task.folder)).progress / "rank-0.jsonl").read_text().splitlines()
    told: list[float] = json.loads(lines[-1])["saving"]
    return told
