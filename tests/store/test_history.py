"""What became of a job is kept in order."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from mlcd.core.live import Live
from mlcd.core.run import Attempt, AttemptEnd
from mlcd.core.task import TaskKind, TaskState
from mlcd.store import Store
from store.store_samples import DEPLOYMENT, job, trial


@pytest.fixture
def told(store: Store) -> Store:
    """A store with a job."""
    store.add_job(job())
    return store


def test_trials_keep_their_order_and_are_stored_once(told: Store) -> None:
    for number in (2, 1, 3, 1):
        told.add_trial("digits-1a2b", trial(number))
    told.add_trial("digits-1a2b", replace(trial(2), seconds=999.0))
    assert told.trials("digits-1a2b") == (trial(2), trial(1), trial(3))


def test_an_attempt_is_known_as_it_stands_last(told: Store) -> None:
    second = Attempt("t2", 2, DEPLOYMENT, started_at=500.0)
    first = Attempt("t1", 1, DEPLOYMENT, started_at=400.0)
    for attempt in (second, first):
        told.put_attempt("digits-1a2b", attempt)
    ended = replace(first, samples=64.0, end=AttemptEnd.LOST, why="a node went away")
    told.put_attempt("digits-1a2b", ended)
    assert told.attempts("digits-1a2b") == (ended, second)


def test_events_are_numbered_within_their_job(told: Store) -> None:
    told.add_job(job("other"))
    first = told.add_event("digits-1a2b", 1.0, "state", "begins", {"n": [1, None, "x"]})
    told.add_event("other", 1.0, "state", "begins too")
    second = told.add_event("digits-1a2b", 2.0, "warning", "hm\0")
    assert (first.number, second.number) == (1, 2)
    assert told.events("digits-1a2b") == [first, second]
    assert told.events("digits-1a2b", after=1) == [second]
    assert told.events("digits-1a2b", limit=1) == [first]
    assert told.events("nothing") == []


def test_a_follower_misses_no_event_of_many_writers(told: Store) -> None:
    def tell() -> None:
        for _ in range(15):
            told.add_event("digits-1a2b", 0.0, "progress", "")

    threads = [threading.Thread(target=tell) for _ in range(4)]
    for thread in threads:
        thread.start()
    seen: list[int] = []
    while len(seen) < 60 and any(thread.is_alive() for thread in threads):
        seen += [event.number for event in told.events("digits-1a2b", after=len(seen))]
    for thread in threads:
        thread.join()
    seen += [event.number for event in told.events("digits-1a2b", after=len(seen))]
    assert seen == list(range(1, 61))


def test_what_runs_now_is_replaced_and_cleared(told: Store) -> None:
    live = Live("t1", TaskKind.PROBE, TaskState.SETUP, DEPLOYMENT, 1.0, 0.1, 0.0, 0.0, None, None, None)
    assert told.live("digits-1a2b") is None
    told.put_live("digits-1a2b", live)
    told.put_live("digits-1a2b", replace(live, state=TaskState.RUNNING))
    assert told.live("digits-1a2b") == replace(live, state=TaskState.RUNNING)
    told.put_live("digits-1a2b", replace(live, task_id="t2"))
    assert {each.task_id for each in told.lives("digits-1a2b")} == {"t1", "t2"}
    told.put_live("digits-1a2b", None)
    assert told.live("digits-1a2b") is None
