"""A job as it is shown: what the running task costs counts, and idle time is nobody's work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import stories
from mlcd.core.records import TaskRecord
from mlcd.core.run import Attempt, AttemptEnd, JobState
from mlcd.core.task import Charge, TaskKind
from mlcd.core.view import JobView
from mlcd.engine.viewing import view_of
from mlcd.reporting.gauges import gauges_of
from mlcd.settings import Settings
from mlcd.store import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path / 'mlcd.db'}")
    yield opened
    opened.close()


def seen(store: Store, tmp_path: Path, after_seconds: float) -> JobView:
    settings = Settings(home=tmp_path)
    return view_of(store, settings, store.job("j-7f3a"), stories.SUBMITTED + after_seconds)


def stretch(number: int, begin: float, end: float, how: AttemptEnd) -> Attempt:
    times = {"started_at": stories.SUBMITTED + begin, "ended_at": stories.SUBMITTED + end}
    return Attempt(f"t{number}", number, stories.deployment(2, 4), end=how, **times)


def test_what_the_running_probe_has_cost_is_spent_and_counted_once(store: Store, tmp_path: Path) -> None:
    live = stories.searching().live
    assert live is not None
    store.add_job(stories.record(JobState.SEARCHING))
    where, at = live.deployment, stories.SUBMITTED
    store.add_task(TaskRecord(live.task_id, "j-7f3a", TaskKind.PROBE, 1, where, "local", at))
    store.put_live("j-7f3a", live)
    before = seen(store, tmp_path, 130.0)
    store.put_charges("j-7f3a", live.task_id, TaskKind.PROBE, (Charge("6 × p2.xlarge", 130.0, 0.2),))
    after = seen(store, tmp_path, 130.0)
    assert before.spent.usd == before.search.usd == after.spent.usd == after.search.usd == live.usd


def test_waiting_for_consent_is_no_search(store: Store, tmp_path: Path) -> None:
    store.add_job(stories.record(JobState.PLANNED))
    search = stories.search_cost().seconds
    time, _ = gauges_of(seen(store, tmp_path, search + 90.0))
    assert time.parts["search"] == pytest.approx(search)
    assert time.parts["waiting"] == pytest.approx(90.0)
    assert time.spent == pytest.approx(search + 90.0)


def test_lying_stopped_is_no_training(store: Store, tmp_path: Path) -> None:
    began = stories.search_cost().seconds + 0.5
    store.add_job(stories.record(JobState.TRAINING, confirmed=True))
    store.put_attempt("j-7f3a", stretch(1, began, began + 20.0, AttemptEnd.STOPPED))
    waits, _ = gauges_of(seen(store, tmp_path, began + 50.0))
    store.put_attempt("j-7f3a", stretch(2, began + 60.0, began + 75.0, AttemptEnd.FINISHED))
    store.change_job("j-7f3a", state=JobState.SUCCEEDED, ended_at=stories.SUBMITTED + began + 75.0)
    done, _ = gauges_of(seen(store, tmp_path, began + 999.0))
    assert (waits.parts["training"], waits.parts["stopped"]) == pytest.approx((20.0, 30.0))
    assert (done.parts["training"], done.parts["stopped"]) == pytest.approx((35.0, 40.0))
    assert "waiting" not in done.parts


def test_an_end_of_a_moment_is_no_stop(store: Store, tmp_path: Path) -> None:
    record = stories.record(JobState.STOPPED, confirmed=True)
    store.add_job(replace(record, ended_at=stories.SUBMITTED + 9999.0))
    store.put_attempt("j-7f3a", stretch(1, 9000.0, 9998.0, AttemptEnd.STOPPED))
    assert seen(store, tmp_path, 20_000.0).stopped_seconds == 0.0
