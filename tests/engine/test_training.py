"""What follows the end of an attempt goes by its cause: no sentence of a cloud is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

import stories
from mlcd.adapt.base import MoveCause
from mlcd.core.machines import Deployment
from mlcd.core.progress import Point, Progress
from mlcd.core.records import JobRecord
from mlcd.core.run import AttemptEnd, JobState
from mlcd.core.study import ProbeTime
from mlcd.core.task import EndCause, Handle, Task, TaskState, TaskStatus
from mlcd.engine.context import JobContext
from mlcd.engine.control import controlling
from mlcd.engine.stop import StopAskedError
from mlcd.engine.training import Training
from mlcd.errors import TaskFailedError, UserError
from mlcd.settings import Settings
from mlcd.store import Store, open_store
from virtual_clock import VirtualClock

FAILED, STOPPED = TaskState.FAILED, TaskState.STOPPED
DONE = TaskStatus(TaskState.SUCCEEDED, Progress((Point(1.0, 1.0, stories.SAMPLES),)), exit_code=0)
NONE_LEFT = TaskStatus(FAILED, reason="come back later", cause=EndCause.NO_CAPACITY)


class EndingCloud:
    """On a clock that jumps: the first attempt ends like this, the second like that."""

    name = "local"
    poll_seconds = 1.0
    ending_seconds = 0.0
    start_seconds = 0.0

    def __init__(self, *ends: TaskStatus) -> None:
        self.clock = VirtualClock(stories.SUBMITTED)
        self._ends = ends
        self._launches = count()

    def expected_probe(self, _measuring_seconds: float) -> ProbeTime:
        return ProbeTime()

    def launch(self, _task: Task, _where: Deployment, _secrets: Mapping[str, str]) -> Handle:
        return str(next(self._launches))

    def status(self, handle: Handle) -> TaskStatus:
        return self._ends[int(handle)]


Train = Callable[..., str]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{tmp_path / 'mlcd.db'}")) as opened:
        yield opened


@pytest.fixture
def train(store: Store, tmp_path: Path) -> Train:
    def run(cloud: EndingCloud, cut_to_gib: float = 0.0) -> str:
        record = with_memory(stories.record(JobState.TRAINING, confirmed=True), cut_to_gib)
        store.add_job(record)
        with controlling(store, record.id) as token:
            context = JobContext(store, cloud, Settings(home=tmp_path), record.id, token or "", {})  # type: ignore[arg-type]  # sells nothing
            return Training(context).run()

    return run


def with_memory(record: JobRecord, cut_to_gib: float) -> JobRecord:
    """The same where memory is sold by the GiB, and its deployment has so much; 0: all that there is."""
    assert record.plan is not None
    where = record.plan.deployment
    priced = replace(where.offer, usd_per_gib_hour=0.01) if cut_to_gib else where.offer
    return replace(record, plan=replace(record.plan, deployment=replace(where, offer=priced, memory_gib=cut_to_gib)))


def ended(store: Store) -> list[tuple[AttemptEnd | None, EndCause | None]]:
    return [(attempt.end, attempt.cause) for attempt in store.attempts("j-7f3a")]


def crashed(reason: str, exit_code: int) -> TaskStatus:
    steps = Progress((Point(1.0, 1.0, 256.0),))
    return TaskStatus(FAILED, steps, reason=reason, exit_code=exit_code, cause=EndCause.CRASHED)


def test_machines_that_cannot_be_had_are_left_for_others(store: Store, train: Train) -> None:
    train(EndingCloud(NONE_LEFT, DONE))
    assert ended(store) == [
        (AttemptEnd.LOST, EndCause.NO_CAPACITY),
        (AttemptEnd.FINISHED, EndCause.COMPLETED),
    ]
    first, second = (attempt.deployment.offer for attempt in store.attempts("j-7f3a"))
    assert first != second
    assert [event.data["cause"] for event in store.events("j-7f3a") if event.kind == "decision"] == [
        MoveCause.NO_CAPACITY
    ]
    assert store.attempts("j-7f3a")[0].why == "no capacity: come back later"


def test_a_machine_that_is_gone_is_replaced_at_once_whatever_is_said_of_it(store: Store, train: Train) -> None:
    train(EndingCloud(TaskStatus(TaskState.LOST, reason="no capacity", cause=EndCause.NODE_LOST), DONE))
    assert ended(store)[0] == (AttemptEnd.LOST, EndCause.NODE_LOST)
    assert len({attempt.deployment for attempt in store.attempts("j-7f3a")}) == 1


def test_a_program_that_fails_alike_twice_is_given_up_whatever_the_words(train: Train) -> None:
    with pytest.raises(TaskFailedError, match="failed 2 times"):
        train(EndingCloud(crashed("it fell", 3), crashed("it fell over", 3)))


def test_a_program_that_fails_in_another_way_is_tried_again(store: Store, train: Train) -> None:
    train(EndingCloud(crashed("it fell", 3), crashed("it fell", 4), DONE))
    assert [attempt.exit_code for attempt in store.attempts("j-7f3a")] == [3, 4, 0]


def test_what_the_user_must_change_first_is_not_tried_again(store: Store, train: Train) -> None:
    refused = TaskStatus(FAILED, reason="The key is wrong.", cause=EndCause.REFUSED, hint="Get another.")
    with pytest.raises(UserError, match=r"The key is wrong\.") as error:
        train(EndingCloud(refused))
    assert error.value.hint == "Get another."
    assert ended(store) == [(AttemptEnd.LOST, EndCause.REFUSED)]


def test_a_time_limit_that_was_raised_since_lets_the_training_go_on(store: Store, train: Train) -> None:
    train(EndingCloud(TaskStatus(STOPPED, reason="over", cause=EndCause.TIME_LIMIT), DONE))
    assert ended(store)[0] == (AttemptEnd.STOPPED, EndCause.TIME_LIMIT)
    assert ended(store)[1] == (AttemptEnd.FINISHED, EndCause.COMPLETED)


def test_a_training_that_needs_more_memory_than_its_probe_gets_all_that_the_machine_has(
    store: Store, train: Train
) -> None:
    full = replace(crashed("out of memory", 137), cause=EndCause.OUT_OF_MEMORY)
    train(EndingCloud(full, DONE), cut_to_gib=4.0)
    first, second = (attempt.deployment for attempt in store.attempts("j-7f3a"))
    assert (first.memory_gib, second.memory_gib) == (4.0, 0.0)
    assert second.usd_per_hour > first.usd_per_hour
    assert [event.message for event in store.events("j-7f3a") if event.kind == "decision"] == [
        "The training needs more than the 4 GiB that its probe needed: it goes on with all 61 GiB of each machine"
    ]


@pytest.mark.parametrize("cut_to_gib", [0.0, 4.0])
def test_a_training_that_runs_out_of_all_memory_at_the_same_place_is_given_up(train: Train, cut_to_gib: float) -> None:
    full = replace(crashed("out of memory", 137), cause=EndCause.OUT_OF_MEMORY)
    with pytest.raises(TaskFailedError, match="failed 2 times"):
        train(EndingCloud(full, full), cut_to_gib)


def test_what_somebody_stopped_stays_stopped(train: Train) -> None:
    with pytest.raises(StopAskedError):
        train(EndingCloud(TaskStatus(STOPPED, reason="at the time limit, or so", cause=EndCause.STOPPED)))
