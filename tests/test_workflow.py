"""Phases of a workflow hand their model on, and search only where it pays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import stories
from mlcd.adapt.changes import Conditions
from mlcd.api import Client
from mlcd.clouds.local.settings import LocalSettings
from mlcd.core.run import JobState
from mlcd.core.study import Ledger
from mlcd.core.trial import Failure, FailureKind, Trial
from mlcd.core.view import JobStory, JobView
from mlcd.errors import GoalUnreachableError, TaskFailedError
from mlcd.settings import Settings
from mlcd.workflow import Workflow

COUNTS = """
import os, pathlib, time
import mlcd
before = os.environ.get("PREVIOUS")
history = (pathlib.Path(before) / "history.txt").read_text() if before else ""
while not mlcd.stopping():
    for _ in mlcd.steps([[0] * 8] * 50):
        time.sleep(0.01)
out = pathlib.Path(os.environ["MLCD_OUTPUT_DIR"])
(out / "history.txt").write_text(history + os.environ["PHASE"])
"""


@pytest.fixture
def flow(tmp_path: Path) -> Workflow:
    (tmp_path / "count.py").write_text(COUNTS)
    job: dict[str, Any] = {
        "name": "flow",
        "workdir": str(tmp_path),
        "run": "python count.py",
        "platform": "command",
        "work": {"samples": 2000},
        "num_nodes": 1,
        "goal": "cheapest",
        "search": {"max_probes": 1},
        "probe": {"warmup_seconds": 0.2, "min_seconds": 0.5, "max_seconds": 2},
    }
    settings = Settings(home=tmp_path / "home", clouds=(LocalSettings(cores=2),))
    return Workflow(Client(settings), job, "local")


@pytest.mark.slow
def test_a_model_goes_from_phase_to_phase_and_little_changes_are_not_searched(flow: Workflow) -> None:
    first = flow.run(Conditions(samples=2000), envs={"PHASE": "a"})
    second = flow.run(Conditions(samples=2100), envs={"PHASE": "b"})
    assert (first.searched, second.searched) == (True, False)
    assert second.deployment == first.deployment
    assert (second.model / "history.txt").read_text() == "ab"
    assert flow.usd == pytest.approx(first.usd + second.usd)


@pytest.mark.slow
def test_a_phase_that_fails_is_told(flow: Workflow) -> None:
    with pytest.raises(TaskFailedError, match="Phase 1"):
        flow.run(Conditions(), run="exit 3")


class Told:
    """A client whose jobs end as they are told to; it keeps what they were asked to change."""

    def __init__(self, *views: JobView) -> None:
        self.settings = Settings(home=Path("unused"))
        self._views = list(views)
        self._driven: list[JobView] = []
        self.asked: list[dict[str, Any]] = []

    def load(self, job: Any, envs: Any, overrides: dict[str, Any]) -> None:
        self.asked.append(overrides)

    def submit(self, job: None, cloud: str | None) -> str:
        return "j-7f3a"

    def confirm(self, job_id: str) -> None: ...

    def drive(self, job_id: str) -> JobView:
        self._driven.append(self._views.pop(0))
        return self._driven[-1]

    def story(self, job_id: str) -> JobStory:
        return JobStory(self._driven[-1], beliefs=(stories.beliefs(4),))


def told(*views: JobView) -> tuple[Workflow, Told]:
    client = Told(*views)
    return Workflow(client, {}, hand_on=False), client  # type: ignore[arg-type]  # these verbs are all that it needs


def done(spent_usd: float = 5.0) -> JobView:
    return replace(stories.planned(), record=stories.record(JobState.SUCCEEDED), spent=Ledger(7200.0, spent_usd))


def unreachable() -> JobView:
    record = stories.record(
        JobState.FAILED, exit_code=GoalUnreachableError.exit_code, error="The deadline cannot be kept."
    )
    return replace(stories.planned(), record=record, spent=Ledger(600.0, 1.0), trials=())


def slower(view: JobView, times: float) -> JobView:
    """The same job, whose steps take so many times longer wherever it was tried."""
    seen = [(trial, trial.measurement) for trial in view.trials]
    trials = [
        replace(trial, outcome=replace(was, samples_per_second=was.samples_per_second / times))
        for trial, was in seen
        if was
    ]
    return replace(view, trials=tuple(trials))


SAME = Conditions(parameters=1e6, samples=stories.SAMPLES)


def test_a_phase_that_cannot_keep_its_limits_where_it_was_is_searched_with_what_is_left_of_them() -> None:
    flow, client = told(done(), unreachable(), done())
    flow.run(SAME)
    phase = flow.run(SAME)
    assert phase.searched
    assert "does not serve any more: The deadline cannot be kept." in phase.why
    assert (phase.seconds, phase.usd) == (7800.0, 6.0)
    assert "num_nodes" in client.asked[1]
    assert client.asked[2] == {"deadline": "13800.000s", "budget": 59.0}


def test_one_that_does_not_fit_there_any_more_is_searched() -> None:
    where = stories.plan().deployment
    full = Trial(where, Failure(FailureKind.OUT_OF_MEMORY), 60.0, 0.1)
    failed = replace(unreachable(), record=stories.record(JobState.FAILED), trials=(full,))
    flow, _ = told(done(), failed, done())
    flow.run(SAME)
    assert flow.run(SAME).searched


def test_one_that_fails_for_itself_is_not_tried_elsewhere() -> None:
    flow, client = told(done(), replace(unreachable(), record=stories.record(JobState.FAILED, error="exit code 3")))
    flow.run(SAME)
    with pytest.raises(TaskFailedError, match="exit code 3"):
        flow.run(SAME)
    assert len(client.asked) == 2


def test_a_larger_model_does_not_end_all_searching() -> None:
    """It costs more wherever it is trained; what the search gained is seen against staying."""
    flow, _ = told(done(), slower(done(), 100.0), done())
    for parameters in (1e6, 1e8, 1e6):
        assert flow.run(Conditions(parameters=parameters, samples=1e9)).searched
    assert all(lesson.gain >= 0 for lesson in flow.lessons)
