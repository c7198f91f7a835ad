"""Tasks are known before they cost anything, and what they cost adds up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlcd.core.records import BillItem
from mlcd.core.task import Charge, TaskKind
from mlcd.errors import NotFoundError, StoreError
from mlcd.store import Store
from store.store_samples import CHARGES, job, task, trial


@pytest.fixture
def busy(store: Store) -> Store:
    """A store with a job of two probes."""
    store.add_job(job())
    store.add_task(task(1))
    store.add_task(task(2))
    return store


def test_a_task_is_open_until_it_ends(busy: Store) -> None:
    busy.set_handle(task(1).id, "local:4242")
    busy.end_task(task(1).id, 500.0)
    busy.end_task(task(1).id, 900.0)
    first = replace(task(1), handle="local:4242", ended_at=500.0)
    assert busy.tasks("digits-1a2b") == [first, task(2)]
    assert busy.tasks(open_only=True) == [task(2)]
    assert busy.task(task(1).id) == first


def test_tasks_are_of_their_job(busy: Store) -> None:
    busy.add_job(job("other"))
    busy.add_task(task(1, "other"))
    assert busy.tasks("other") == [task(1, "other")]
    assert busy.tasks() == [task(1), task(2), task(1, "other")]


def test_the_same_task_twice_is_refused(busy: Store) -> None:
    with pytest.raises(StoreError, match=task(1).id):
        busy.add_task(task(1))


def test_an_unknown_task_or_job_is_not_found(busy: Store) -> None:
    for call in (
        lambda: busy.task("nothing"),
        lambda: busy.set_handle("nothing", "x"),
        lambda: busy.end_task("nothing", 1.0),
        lambda: busy.add_points("digits-1a2b", "nothing", (), ()),
        lambda: busy.put_charges("digits-1a2b", "nothing", TaskKind.PROBE, CHARGES),
        lambda: busy.put_charges("nothing", task(1).id, TaskKind.PROBE, CHARGES),
        lambda: busy.add_task(task(1, "nothing")),
        lambda: busy.add_event("nothing", 0.0, "state", ""),
    ):
        with pytest.raises(NotFoundError):
            call()
    assert busy.bill("digits-1a2b") == ()


def test_the_bill_has_the_last_lines_of_each_task(busy: Store) -> None:
    busy.put_charges("digits-1a2b", task(2).id, TaskKind.TRAINING, [Charge("so far\0", 1.0, 0.7)])
    busy.put_charges("digits-1a2b", task(1).id, TaskKind.PROBE, [Charge("too early", 1.0, 9.9)] * 3)
    busy.put_charges("digits-1a2b", task(1).id, TaskKind.PROBE, CHARGES)
    assert busy.bill("digits-1a2b") == (
        BillItem(task(1).id, TaskKind.PROBE, "2 × local-2c", 60.0, 0.1),
        BillItem(task(1).id, TaskKind.PROBE, "disk", 60.0, 0.2),
        BillItem(task(2).id, TaskKind.TRAINING, "so far", 1.0, 0.7),
    )
    assert busy.spent("digits-1a2b") == 1.0
    busy.put_charges("digits-1a2b", task(2).id, TaskKind.TRAINING, [])
    assert busy.spent("digits-1a2b") == pytest.approx(0.3)


def test_what_was_paid_in_advance_and_not_used_is_taken_off_who_paid_it(busy: Store) -> None:
    job_id, probe, training = "digits-1a2b", task(1).id, task(2).id

    def cost(task_id: str) -> float:
        return sum(item.usd for item in busy.bill(job_id) if item.task_id == task_id)

    ahead = [Charge("1 × c5", 100.0, 0.10), Charge("kept ready for the next task", 45.0, 0.045)]
    busy.put_charges(job_id, probe, TaskKind.PROBE, ahead)
    for used in (5.0, 20.0, 20.0):  # written down again and again
        lines = [Charge("1 × c5", used, used / 1000), Charge("paid while kept ready", -45.0, -0.045)]
        busy.put_charges(job_id, training, TaskKind.TRAINING, lines)
        assert busy.spent(job_id) == pytest.approx(0.10 + used / 1000)
        assert cost(training) == pytest.approx(0.0, abs=1e-12)
        assert cost(probe) == pytest.approx(0.10 + used / 1000)
    lines = [Charge("1 × c5", 60.0, 0.06), Charge("paid while kept ready", -45.0, -0.045)]
    busy.put_charges(job_id, training, TaskKind.TRAINING, lines)
    assert (cost(probe), cost(training)) == (pytest.approx(0.145), pytest.approx(0.015))


def test_a_credit_that_nobody_paid_for_stays_where_it_is(busy: Store) -> None:
    busy.put_charges("digits-1a2b", task(2).id, TaskKind.TRAINING, [Charge("credit", 0.0, -0.5)])
    assert busy.spent("digits-1a2b") == pytest.approx(-0.5)


def test_nothing_is_spent_at_first(store: Store) -> None:
    store.add_job(job())
    assert store.spent("digits-1a2b") == 0.0


def test_a_probe_finished_twice_is_booked_once(busy: Store) -> None:
    for _ in range(2):
        busy.finish_probe("digits-1a2b", trial(1), TaskKind.PROBE, CHARGES, 500.0)
    assert busy.trials("digits-1a2b") == (trial(1),)
    assert busy.spent("digits-1a2b") == pytest.approx(0.3)
    assert busy.tasks(open_only=True) == [task(2)]


def test_a_probe_that_cannot_be_booked_whole_is_not_booked(busy: Store) -> None:
    with pytest.raises(NotFoundError):
        busy.finish_probe("digits-1a2b", trial(7), TaskKind.PROBE, CHARGES, 500.0)
    assert busy.trials("digits-1a2b") == ()
