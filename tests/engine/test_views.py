"""A job as it is shown: what the running task costs counts, and idle time is nobody's work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import stories
from mlcd.core.records import TaskRecord
from mlcd.core.run import Attempt, AttemptEnd, JobState
from mlcd.core.task import Charge, TaskKind, TaskState
from mlcd.core.view import JobView
from mlcd.engine.tasks import checkpoint_folder
from mlcd.engine.views import view_of
from mlcd.reporting.gauges import gauges_of
from mlcd.settings import Settings
from mlcd.store import Store, open_store
from mlcd.worker import checkpoints


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path / 'mlcd.db'}")
    yield opened
    opened.close()


def seen(store: Store, tmp_path: Path, after_seconds: float) -> JobView:
    settings = Settings(home=tmp_path)
    return view_of(store, settings, store.job("j-7f3a"), stories.SUBMITTED + after_seconds)


def attempt(number: int, begin: float, end: float, how: AttemptEnd) -> Attempt:
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
    store.put_attempt("j-7f3a", attempt(1, began, began + 20.0, AttemptEnd.STOPPED))
    waits, _ = gauges_of(seen(store, tmp_path, began + 50.0))
    store.put_attempt("j-7f3a", attempt(2, began + 60.0, began + 75.0, AttemptEnd.FINISHED))
    store.change_job("j-7f3a", state=JobState.SUCCEEDED, ended_at=stories.SUBMITTED + began + 75.0)
    done, _ = gauges_of(seen(store, tmp_path, began + 999.0))
    assert (waits.parts["training"], waits.parts["stopped"]) == pytest.approx((20.0, 30.0))
    assert (done.parts["training"], done.parts["stopped"]) == pytest.approx((35.0, 40.0))
    assert "waiting" not in done.parts


def test_an_end_of_a_moment_is_no_stop(store: Store, tmp_path: Path) -> None:
    record = stories.record(JobState.STOPPED, confirmed=True)
    store.add_job(replace(record, ended_at=stories.SUBMITTED + 9999.0))
    store.put_attempt("j-7f3a", attempt(1, 9000.0, 9998.0, AttemptEnd.STOPPED))
    assert seen(store, tmp_path, 20_000.0).stopped_seconds == 0.0


def probe(number: int, nodes: int) -> TaskRecord:
    where = stories.deployment(1, nodes)
    return TaskRecord(f"p{number}", "j-7f3a", TaskKind.PROBE, number, where, "local", stories.SUBMITTED + 10.0)


def test_all_probes_at_work_are_seen_with_their_money(store: Store, tmp_path: Path) -> None:
    seen_of_one = stories.searching().live
    assert seen_of_one is not None
    store.add_job(stories.record(JobState.SEARCHING))
    for task, usd in ((probe(1, 6), 0.2), (probe(2, 2), 0.3)):
        store.add_task(task)
        live = replace(seen_of_one, task_id=task.id, deployment=task.deployment, usd=usd)
        store.put_live("j-7f3a", live)
    view = seen(store, tmp_path, 100.0)
    assert [live.task_id for live in view.running] == ["p1", "p2"]
    assert view.live == view.running[0]
    assert view.spent.usd == view.search.usd == pytest.approx(0.5)
    store.end_task("p1", stories.SUBMITTED + 50.0)
    assert [live.task_id for live in seen(store, tmp_path, 100.0).running] == ["p2"]


def test_with_a_dead_controller_time_and_money_go_on(store: Store, tmp_path: Path) -> None:
    was = stories.searching().live
    assert was is not None
    store.add_job(stories.record(JobState.SEARCHING))
    looked_at, unseen = probe(1, 6), probe(2, 2)
    store.add_task(looked_at)
    store.add_task(unseen)
    at = stories.SUBMITTED + 100.0
    store.put_live("j-7f3a", replace(was, task_id="p1", seconds=90.0, usd=0.2, seen_at=at))
    first, second = seen(store, tmp_path, 460.0).running
    assert first.seconds == pytest.approx(450.0)
    assert first.usd == pytest.approx(0.2 + looked_at.deployment.usd(360.0))
    assert (second.state, second.seconds) == (TaskState.STARTING, pytest.approx(450.0))
    assert second.usd == pytest.approx(unseen.deployment.usd(450.0))
    assert seen(store, tmp_path, 460.0).spent.usd == pytest.approx(first.usd + second.usd)


def save(tmp_path: Path, samples: float) -> None:
    partial = checkpoints.begin(checkpoint_folder(tmp_path / "jobs" / "j-7f3a"))
    (partial / "state").write_text("s")
    checkpoints.commit(partial, checkpoints.Facts(samples))


def test_a_checkpoint_that_was_set_aside_is_not_shown_as_saved(store: Store, tmp_path: Path) -> None:
    store.add_job(stories.record(JobState.STOPPED, confirmed=True))
    for samples in (1000.0, 2000.0):
        save(tmp_path, samples)
    assert seen(store, tmp_path, 9999.0).saved_samples == 2000.0
    newest = checkpoints.newest_intact(checkpoint_folder(tmp_path / "jobs" / "j-7f3a"))
    assert newest is not None
    checkpoints.refuse(newest, "t2")
    assert seen(store, tmp_path, 9999.0).saved_samples == 1000.0


def test_what_is_expected_after_a_stop_is_the_rest_from_the_checkpoint(store: Store, tmp_path: Path) -> None:
    began = stories.search_cost().seconds + 0.5
    record = stories.record(JobState.STOPPED, confirmed=True, ended_at=stories.SUBMITTED + began + 600.0)
    store.add_job(record)
    stopped = attempt(1, began, began + 600.0, AttemptEnd.STOPPED)
    store.put_attempt("j-7f3a", replace(stopped, samples=stories.SAMPLES / 2, samples_per_second=1000.0))
    time, money = gauges_of(seen(store, tmp_path, began + 9999.0))
    assert time.parts["expected"] == pytest.approx(stories.SAMPLES / 1000.0)  # nothing was saved
    save(tmp_path, stories.SAMPLES / 4)
    time, money = gauges_of(seen(store, tmp_path, began + 9999.0))
    assert time.parts["expected"] == pytest.approx(0.75 * stories.SAMPLES / 1000.0)
    assert money.parts["expected"] == pytest.approx(record.deployment.usd(time.parts["expected"]))


def test_a_probe_of_a_training_that_rests_is_no_part_of_its_work(store: Store, tmp_path: Path) -> None:
    began = stories.search_cost().seconds + 0.5
    record = stories.record(JobState.TRAINING, confirmed=True)
    store.add_job(record)
    moved = attempt(1, began, began + 600.0, AttemptEnd.MOVED)
    store.put_attempt("j-7f3a", replace(moved, samples=stories.SAMPLES / 2, samples_per_second=1000.0))
    trying = stories.searching().live
    assert trying is not None
    view = replace(seen(store, tmp_path, began + 700.0), live=replace(trying, samples=stories.SAMPLES / 3))
    time, _ = gauges_of(view)
    assert time.parts["expected"] == pytest.approx(view.start_seconds + stories.SAMPLES / 1000.0)


def test_a_plan_that_waits_expects_all_of_its_training(store: Store, tmp_path: Path) -> None:
    store.add_job(stories.record(JobState.PLANNED))
    time, money = gauges_of(seen(store, tmp_path, stories.search_cost().seconds + 9999.0))
    forecast = stories.plan().forecast
    assert (time.parts["expected"], money.parts["expected"]) == (forecast.seconds, forecast.usd)
