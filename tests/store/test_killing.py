"""What was acknowledged is there after kill -9, and nothing is there by halves."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from mlcd.core.records import BillItem
from mlcd.core.task import TaskKind
from mlcd.store import Store, open_store
from store.store_samples import CHARGES, job, python, task, trial

WRITE = """
from mlcd.core.task import TaskKind
from mlcd.store import open_store
from store.store_samples import CHARGES, task, trial
url, first = sys.argv[1], int(sys.argv[2])
store = open_store(url)
for number in range(first, first + 1_000_000):
    store.add_task(task(number))
    store.finish_probe("digits-1a2b", trial(number), TaskKind.PROBE, CHARGES, 1.0)
    store.add_event("digits-1a2b", 1.0, "trial", "x" * 5000)
    print(number, flush=True)
"""
ROUNDS = 3


@pytest.mark.slow
def test_a_killed_writer_loses_nothing_and_leaves_nothing_by_halves(url: str) -> None:
    with closing(open_store(url)) as store:
        store.add_job(job())
    acknowledged = 0
    for number in range(ROUNDS):
        first = number * 1_000_000 + 1
        acknowledged += _write_and_die(url, first, after=20, delay_seconds=0.003 * number)
        with closing(open_store(url)) as store:
            _check(store, acknowledged)
            acknowledged = len(store.events("digits-1a2b"))


def _write_and_die(url: str, first: int, after: int, delay_seconds: float) -> int:
    """How many rounds were acknowledged before the kill."""
    process = python(WRITE, url, str(first))
    assert process.stdout is not None
    seen = [process.stdout.readline() for _ in range(after)]
    time.sleep(delay_seconds)
    process.kill()
    seen += process.communicate(timeout=30)[0].splitlines()
    return len([line for line in seen if line.strip()])


def _check(store: Store, acknowledged: int) -> None:
    if store._database.url.get_backend_name() == "sqlite":
        with store._database.reading() as connection:
            assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
    events, trials = store.events("digits-1a2b"), store.trials("digits-1a2b")
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert acknowledged <= len(events) <= len(trials)
    ended = [record for record in store.tasks("digits-1a2b") if record.ended_at is not None]
    assert [trial.task_id for trial in trials] == [record.id for record in ended]
    assert store.bill("digits-1a2b") == tuple(
        BillItem(record.id, TaskKind.PROBE, charge.what, charge.seconds, charge.usd)
        for record in ended
        for charge in CHARGES
    )
    assert trials[0] == trial(1)
    assert store.tasks("digits-1a2b")[0].deployment == task(1).deployment
