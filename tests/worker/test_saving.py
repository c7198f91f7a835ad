"""When a save is due, and that ranks which train together save after the same step."""

from __future__ import annotations

import math
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

import mlcd
from mlcd.worker.counts import Count, Counts
from mlcd.worker.environment import read_environment
from mlcd.worker.saving import (
    FIRST_SECONDS,
    LONGEST_SECONDS,
    SavePoint,
    Saving,
    interval_seconds,
    mean_loss_seconds,
)
from worker.programs import finish, free_port, start
from worker.sessions import Inside, lines

HOUR = 3600.0


class Clock:
    """Goes on when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def trained(saving: Saving, clock: Clock, seconds: float, save_seconds: float, step_seconds: float) -> list[float]:
    """When the program saved, that trains for so long and asks after each step."""
    saves = []
    while clock.now < seconds:
        clock.now += step_seconds
        if saving.due(step_seconds):
            saving.told()
            saves.append(clock.now)
            clock.now += save_seconds
            saving.saved(clock.now)
    return saves


def test_the_interval_is_youngs() -> None:
    assert interval_seconds(2.0, 8 * HOUR) == pytest.approx(math.sqrt(2 * 2.0 * 8 * HOUR))


def test_no_interval_of_others_costs_less_in_saves_and_lost_work() -> None:
    save, loss = 3.0, 5 * HOUR

    def cost(interval: float) -> float:
        return save / interval + interval / 2 / loss

    best = interval_seconds(save, loss)
    assert all(cost(best) < cost(factor * best) for factor in (0.5, 0.8, 1.25, 2.0))


def test_saving_takes_no_more_than_a_fifth_of_the_time_and_a_guess_leaves_no_hour_unsaved() -> None:
    assert interval_seconds(60.0, 10.0) == 4 * 60.0
    assert interval_seconds(100.0, 1e9) == LONGEST_SECONDS


def test_losses_that_were_seen_shorten_the_time_between_two_and_their_absence_makes_it_longer() -> None:
    assert mean_loss_seconds(20 * HOUR, 0, 0.0) == 20 * HOUR
    assert mean_loss_seconds(20 * HOUR, 4, 5 * HOUR) == 5 * HOUR
    assert mean_loss_seconds(20 * HOUR, 0, 10 * HOUR) == 30 * HOUR


def test_the_first_save_shows_what_one_takes_and_the_next_follow_from_it() -> None:
    clock = Clock()
    saving = Saving(0.0, 2 * HOUR, clock)
    first, second, third = trained(saving, clock, 350.0, save_seconds=1.0, step_seconds=1.0)[:3]
    assert first == pytest.approx(FIRST_SECONDS, abs=1.0)
    assert second - first == pytest.approx(math.sqrt(2 * 1.0 * 2 * HOUR), abs=2.0)
    assert third - second == pytest.approx(second - first, abs=1.0)
    assert saving.takes_seconds == pytest.approx(1.0)


def test_a_save_comes_before_the_interval_is_over_and_not_a_step_after_it() -> None:
    clock = Clock()
    saves = trained(Saving(60.0, 2 * HOUR, clock), clock, 600.0, save_seconds=0.0, step_seconds=7.0)
    assert all(after - before <= 60.0 for before, after in zip([0.0, *saves], saves, strict=False))


def test_a_program_that_saves_to_a_folder_of_its_own_is_measured_by_its_pause() -> None:
    clock = Clock()
    saving = Saving(0.0, HOUR, clock)
    clock.now = FIRST_SECONDS
    assert saving.due(1.0)
    saving.told()
    clock.now += 4.0 + 1.0  # it saves, and makes a step
    assert not saving.due(1.0)
    assert saving.takes_seconds == pytest.approx(4.0)


def test_what_the_program_saves_when_it_wants_counts_too() -> None:
    clock = Clock()
    saving = Saving(0.0, HOUR, clock)
    clock.now = 9.0
    saving.saved(8.5)
    clock.now = 20.0
    assert not saving.due(1.0)
    assert saving.takes_seconds == 0.5


def test_a_save_that_took_no_time_is_followed_by_others() -> None:
    clock = Clock()
    saves = trained(Saving(0.0, HOUR, clock), clock, 100.0, save_seconds=0.0, step_seconds=0.1)
    assert len(saves) > 10
    assert interval_seconds(0.0, HOUR) > 0.0


def test_nothing_is_due_in_a_probe_or_outside_mlcd(inside: Inside) -> None:
    inside()
    assert not any(mlcd.checkpoint_due() for _ in range(5))


def test_the_job_says_how_often_and_the_interval_is_reported(inside: Inside, tmp_path: Path) -> None:
    session = inside(MLCD_SAVE_SECONDS="0.01", MLCD_LOSS_SECONDS="7200")
    saves = 0
    for _ in mlcd.steps([[0]] * 50):
        time.sleep(0.004)
        if mlcd.checkpoint_due():
            saves += 1
            with mlcd.checkpoint() as folder:
                (folder / "state").write_text("state")
    session.end()
    assert saves > 2
    every, takes, loss = lines(tmp_path / "progress")[-1]["saving"]
    assert (every, loss) == (0.01, 7200)
    assert takes > 0


def test_ranks_without_a_process_group_leave_it_to_the_first(inside: Inside) -> None:
    inside(MLCD_SAVE_SECONDS="0.001", RANK=1, WORLD_SIZE=2)
    assert not any(mlcd.checkpoint_due() for _ in mlcd.steps([[0]] * 20))


class Shared(dict[str, str]):
    """The store of a process group."""

    def set(self, key: str, value: str) -> None:
        self[key] = value

    def check(self, keys: list[str]) -> bool:
        return all(key in self for key in keys)


class Steps(Counts):
    """As many steps as it is told, a hundred in a second."""

    done = 0

    @property
    def now(self) -> Count:
        return Count(0.0, self.done, 0.0)

    @property
    def steps_per_second(self) -> float:
        return 100.0


@pytest.mark.parametrize("further", [0, 1, 7, 40])
def test_ranks_that_only_queue_their_steps_save_after_the_same(further: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU's program, or one that adds up gradients by itself, may be some steps further than the first rank."""
    store, clock = Shared(), Clock()
    monkeypatch.setattr("mlcd.worker.ranks.shared_store", lambda: store)
    saved: tuple[list[int], list[int]] = ([], [])
    env = read_environment({"MLCD_TASK_ID": "t", "WORLD_SIZE": "2"})
    counts = [Steps() for _ in range(2)]
    points = [SavePoint(replace(env, rank=rank), counts[rank]) for rank in range(2)]
    points[0].saving = Saving(10.0, 0.0, clock)
    for step in range(1, 4000):
        clock.now = step / 100
        for rank in (1, 0):
            counts[rank].done = step + rank * further
            if points[rank].due():
                saved[rank].append(counts[rank].done)
    assert saved[0] == saved[1]
    assert len(saved[0]) >= 3


def test_a_first_step_that_takes_long_says_nothing_of_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a program is compiled: the others were told to save half a million steps later."""
    store, clock = Shared(), Clock()
    monkeypatch.setattr("mlcd.worker.ranks.shared_store", lambda: store)
    counts = Counts()
    point = SavePoint(replace(read_environment({"MLCD_TASK_ID": "t", "WORLD_SIZE": "2"}), rank=0), counts)
    point.saving = Saving(10.0, 0.0, clock)
    clock.now = 60.0
    counts.add_loop(1, 1.0)
    assert not point.due()
    time.sleep(0.02)
    counts.add_loop(1, 1.0)
    assert not point.due()
    (step,) = store.values()
    assert int(step) <= 2 + max(10, 0.5 / 0.02 + 1)


RANKS = """
import time, torch, torch.distributed as dist
import mlcd

dist.init_process_group("gloo")
total, saved = torch.zeros(1), []
for number, batch in enumerate(mlcd.steps([[1, 2]] * 120)):
    dist.all_reduce(total)
    time.sleep(0.004 * (1 + dist.get_rank()))
    if mlcd.checkpoint_due():
        dist.barrier()  # as a save that all ranks take part in
        saved.append(number)
print("saved", saved)
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_ranks_of_a_process_group_save_after_the_same_steps(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    group = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": free_port(),
        "WORLD_SIZE": 2,
        "GLOO_SOCKET_IFNAME": "lo",
        "MLCD_SAVE_SECONDS": "0.2",
    }
    ranks = [start(RANKS, tmp_path, RANK=rank, **group) for rank in range(2)]
    try:
        first, second = [finish(rank).strip().splitlines()[-1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert first == second
    assert first.count(",") >= 2, f"three saves at least in the second that it takes ({os.cpu_count()} cores): {first}"
