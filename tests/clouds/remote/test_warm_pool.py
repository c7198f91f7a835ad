"""Machines that wait for the next task of their job: whose they are, whoever is killed."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from loopback_machines import OFFER
from mlcd.clouds.remote.base import Machine
from mlcd.clouds.remote.warm_pool import (
    WarmMachine,
    claim,
    claimed,
    drop,
    offer,
    publish,
    refuse,
    take,
    taken_over,
    unclaimed,
)
from mlcd.core.machines import Deployment

PAIR = Deployment(OFFER, 2)
MACHINES = tuple(Machine(name, "host", "address", billed_from=1000.0) for name in ("i-1", "i/2"))


class WarmTasks:
    """Tasks of one job that keep machines and take them over."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def keep(self, task: str, seconds: float = 45.0) -> None:
        offer(self.home / task / "offered", task, PAIR.offer, MACHINES, time.time() + seconds)
        self.publish(task)

    def publish(self, task: str) -> None:
        publish(self.home, "job", self.home / task / "offered")

    def claim(self, task: str) -> list[WarmMachine]:
        return claim(self.home, "job", PAIR, self.home / task / "claimed")

    def unclaimed(self, task: str) -> list[str]:
        return [machine.id for machine in unclaimed(self.home, "job", MACHINES, task)]


@pytest.fixture
def tasks(tmp_path: Path) -> WarmTasks:
    """Nobody keeps anything yet."""
    return WarmTasks(tmp_path)


def test_what_a_later_task_keeps_is_not_the_earlier_ones_to_end(tasks: WarmTasks) -> None:
    tasks.keep("p1")
    assert len(tasks.claim("t1")) == 2
    tasks.keep("t1")
    assert tasks.unclaimed("p1") == []
    assert tasks.unclaimed("t1") == ["i-1", "i/2"]


def test_what_nobody_took_is_given_back_once(tasks: WarmTasks) -> None:
    tasks.keep("p1")
    assert tasks.unclaimed("p1") == ["i-1", "i/2"]
    assert tasks.unclaimed("p1") == []
    assert tasks.claim("t1") == []


def test_what_was_taken_is_not_offered_again_by_whoever_goes_on_after_a_kill(tasks: WarmTasks) -> None:
    tasks.keep("p1")
    assert len(tasks.claim("t1")) == 2
    tasks.publish("p1")
    assert tasks.claim("t2") == []


def test_a_claim_is_found_again_and_stays_paid_from_when_it_was_taken(tasks: WarmTasks) -> None:
    tasks.keep("p1")
    first, _ = tasks.claim("t1")
    taken = take(tasks.home / "t1" / "claimed", first)
    again, other = tasks.claim("t1")
    assert again == taken
    assert taken_over(again).billed_from == taken.taken_at
    assert (taken_over(again).paid_until, taken_over(again).rented_at) == (first.until, 1000.0)
    assert other.taken_at == 0.0
    drop(tasks.home / "t1" / "claimed", other)
    assert claimed(tasks.home / "t1" / "claimed") == [taken]


def test_a_lease_that_is_about_to_end_is_not_taken_over(tasks: WarmTasks) -> None:
    tasks.keep("p1", seconds=5.0)
    assert tasks.claim("t1") == []
    assert tasks.unclaimed("p1") == ["i-1", "i/2"], "whoever keeps them gives them back"


def test_a_claim_made_before_a_kill_is_too_late_once_its_lease_is_about_to_end() -> None:
    waiting = WarmMachine(MACHINES[0], "small@", until=time.time() + 5.0)
    assert waiting.ends_soon
    assert not WarmMachine(MACHINES[0], "small@", until=time.time() - 5.0, taken_at=time.time() - 30.0).ends_soon


def test_a_lease_that_was_renewed_too_late_does_not_make_the_machine_ours(tasks: WarmTasks) -> None:
    tasks.keep("p1", seconds=20.0)
    first, _ = tasks.claim("t1")
    slow = replace(first, until=time.time() + 5.0)  # so much is left when the renewal is done: it may be ending
    assert take(tasks.home / "t1" / "claimed", slow).taken_at == 0.0
    assert [warm.taken_at for warm in tasks.claim("t1")] == [0.0, 0.0]


def test_what_is_about_to_be_given_back_is_not_taken_by_whoever_goes_on_after_a_kill(tasks: WarmTasks) -> None:
    tasks.keep("p1")
    first, _ = tasks.claim("t1")
    refuse(tasks.home / "t1" / "claimed", first)
    again, other = tasks.claim("t1")
    assert again.machine == first.machine, "it is still ours to give back"
    assert (again.ends_soon, other.ends_soon) == (True, False)
