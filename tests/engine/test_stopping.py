"""Stopping says what is lost and rents nothing more, resuming says where it begins, and probes side by side are all seen."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlcd.api import Client
from mlcd.core.machines import Deployment
from mlcd.core.run import JobState
from mlcd.core.study import Stop, Study
from mlcd.core.task import TaskKind
from mlcd.core.view import JobView
from mlcd.reporting.stopping import goes_on_from, stopping_loses
from mlcd.search.baselines import ExhaustiveSearch
from mlcd.store import Store
from small_jobs import MakeJob

SAVES_NOTHING = """
import time
import mlcd

for batch in mlcd.steps([[0] * 10] * 100_000):
    time.sleep(0.02)
"""


def begins(client: Client, job_id: str) -> list[str]:
    """What was said when each attempt began."""
    return [event.message for event in client.events(job_id) if event.message.startswith("Training on ")]


def wait_for(client: Client, job_id: str, what: Callable[[JobView], object], seconds: float = 120.0) -> JobView:
    """The first view of which this holds."""
    give_up_at = time.monotonic() + seconds
    while time.monotonic() < give_up_at:
        view = client.view(job_id)
        if what(view):
            return view
        time.sleep(0.1)
    pytest.fail(f"it never came to that: {view.record.state}, {view.record.error}")


def trained(view: JobView) -> bool:
    return view.record.state is JobState.TRAINING and view.live is not None and view.live.samples > 0


@pytest.mark.slow
def test_without_a_checkpoint_stop_and_resume_say_that_all_is_lost(client: Client, make_job: MakeJob) -> None:
    job_id = client.submit(client.load(make_job(SAVES_NOTHING, work={"samples": 1_000_000})))
    client.confirm(job_id)
    client.start(job_id)
    assert stopping_loses(wait_for(client, job_id, trained)).startswith("There is no checkpoint: all ")
    client.stop(job_id)
    view = wait_for(client, job_id, lambda seen: seen.record.state is JobState.STOPPED)
    assert view.samples_done > 0
    assert view.saved_samples == 0
    assert goes_on_from(view) == "from nothing: there is no checkpoint"

    client.resume(job_id)
    wait_for(client, job_id, lambda _: len(begins(client, job_id)) == 2)
    begun = begins(client, job_id)
    assert "from the beginning" not in begun[0]
    assert begun[1].endswith("from the beginning: there is no checkpoint")
    client.stop(job_id)
    wait_for(client, job_id, lambda seen: seen.record.state is JobState.STOPPED)


@pytest.mark.slow
def test_two_probes_side_by_side_are_both_seen(client: Client, make_job: MakeJob) -> None:
    probe = {"warmup_seconds": 0.2, "min_seconds": 60, "max_seconds": 60, "silent_seconds": 60}
    search = {"strategy": "exhaustive", "parallel": 2}
    keys = {"work": {"samples": 1_000_000}, "batch_size": [8, 16], "search": search, "probe": probe}
    job_id = client.submit(client.load(make_job(SAVES_NOTHING, **keys)))
    client.start(job_id)
    view = wait_for(client, job_id, lambda seen: len(seen.running) == 2)
    assert view.spent.usd == pytest.approx(sum(live.usd for live in view.running))
    assert "2 probes at work" in stopping_loses(view)
    client.stop(job_id)
    wait_for(client, job_id, lambda seen: seen.record.state is JobState.STOPPED)


TRACE = """\
workload,instance,nodes,throughput,usd_per_node_hour,status
net,small,1,100,1.0,ok
net,big,1,300,2.0,ok
"""


@pytest.fixture
def replayed(client: Client, tmp_path: Path) -> str:
    """A job with two deployments to try, on a clock that jumps."""
    (tmp_path / "trace.csv").write_text(TRACE)
    job = {"name": "net", "run": "true", "work": {"samples": 1e6}, "goal": "fastest", "search": "exhaustive"}
    options = {"trace": str(tmp_path / "trace.csv"), "workload": "net"}
    return client.submit(client.load(job), cloud="replay", cloud_options=options)


def test_a_stop_asked_for_while_a_probe_ends_rents_nothing_more(
    client: Client, replayed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Store.finish_probe

    def ask_and_book(store: Store, *facts: Any) -> None:
        store.change_job(replayed, stop_asked=True)
        book(store, *facts)

    monkeypatch.setattr(Store, "finish_probe", ask_and_book)
    view = client.drive(replayed)
    assert view.record.state is JobState.STOPPED, view.record.error
    assert len(view.trials) == len(client.store.tasks(replayed)) == 1


def test_a_stop_asked_for_while_the_search_thinks_rents_nothing(
    client: Client, replayed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    think = ExhaustiveSearch.suggest

    def ask_and_think(search: ExhaustiveSearch, study: Study) -> Deployment | Stop:
        client.store.change_job(replayed, stop_asked=True)
        return think(search, study)

    monkeypatch.setattr(ExhaustiveSearch, "suggest", ask_and_think)
    view = client.drive(replayed)
    assert view.record.state is JobState.STOPPED, view.record.error
    assert client.store.tasks(replayed) == []


def test_a_stop_asked_for_while_a_training_moves_rents_nothing_more(
    client: Client, replayed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slower = client.drive(replayed).trials[0].deployment
    end = Store.end_task

    def ask_and_end(store: Store, *facts: Any) -> None:
        store.change_job(replayed, stop_asked=True)
        end(store, *facts)

    monkeypatch.setattr(Store, "end_task", ask_and_end)
    client.store.change_job(replayed, confirmed=True, move_asked=slower)
    view = client.drive(replayed)
    assert view.record.state is JobState.STOPPED, view.record.error
    trained = [task for task in client.store.tasks(replayed) if task.kind is TaskKind.TRAINING]
    assert len(view.run.attempts) == len(trained) == 1
    assert view.record.deployment == slower  # where a resumed training goes on
