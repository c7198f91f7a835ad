"""The promises of mlcd.clouds.base.Cloud as tests: subclass, say how to open yours, and run pytest.

    class TestMyCloud(CloudContract):
        def open_cloud(self, home):
            return MyCloud(Settings(home=home), {})

All waiting goes by the cloud's own clock, so that a cloud on a virtual clock is tested in no time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import pytest

from mlcd.clouds.base import Cloud
from mlcd.core.machines import Deployment, Offer
from mlcd.core.task import EndCause, Handle, Task, TaskKind, TaskState, TaskStatus
from mlcd.errors import CloudError

T = TypeVar("T")

SOON_SECONDS = 5.0  # of real time: no call may take longer, whatever the cloud's clock says

_REPORTS = """
for step in $(seq 1 10000); do
    echo "{\\"t\\": $(date +%s.%N), \\"steps\\": $step, \\"samples\\": $((step * 8)), \\"process\\": \\"$$\\"}"
    sleep 0.05
done >> "$MLCD_PROGRESS_DIR/rank-${RANK:-0}.jsonl"
"""


@dataclass(frozen=True)
class Launched:
    """A task that a test has launched, and how it stood at last."""

    task: Task
    deployment: Deployment
    handle: Handle


class CloudContract:
    """Every cloud keeps these promises. Override the hooks, not the tests."""

    patience_seconds = 30.0  # on the cloud's clock: how long a small task may take to start, end or report

    # ------------------------------------------------------------------------------------------------ hooks

    def open_cloud(self, home: Path) -> Cloud:
        """The cloud, with all that it keeps on this computer in that folder; opened twice, it is the same cloud."""
        raise NotImplementedError

    def deployment(self, cloud: Cloud) -> Deployment:
        """A small deployment to run the tasks on."""
        return Deployment(next(iter(cloud.offers())), nodes=1)

    def succeeding(self, task: Task) -> Task:
        """The task, made one that ends well by itself, soon."""
        return replace(task, run="echo done")

    def failing(self, task: Task) -> Task | None:
        """The task, made one that ends with exit code 3; None: nothing fails here."""
        return replace(task, run="echo 'no such luck'; exit 3")

    def endless(self, task: Task) -> Task:
        """The task, made one that goes on until it is stopped."""
        return replace(task, run="sleep 1000")

    def reporting(self, task: Task) -> Task:
        """The task, made one that goes on for long and reports steps."""
        return replace(task, run=_REPORTS)

    # ---------------------------------------------------------------------------------------------- fixtures

    @pytest.fixture
    def home(self, tmp_path: Path) -> Path:
        """What the cloud keeps."""
        return tmp_path / "home"

    @pytest.fixture
    def cloud(self, home: Path) -> Iterator[Cloud]:
        """The cloud; whatever a test leaves running is ended after it."""
        cloud = self.open_cloud(home)
        yield cloud
        handles = [owned.handle for owned in cloud.owned()]
        for handle in handles:
            cloud.stop(handle)
        for handle in handles:
            self.wait_for(cloud, handle, lambda status: status.state.ended)
        cloud.close()

    @pytest.fixture
    def task(self, home: Path) -> Task:
        """A task that the hooks make something of."""
        return Task(
            id="contract-1",
            job_id="contract",
            kind=TaskKind.TRAINING,
            platform="command",
            run="true",
            folder=str(home / "jobs" / "contract-1"),
            grace_seconds=1.0,
        )

    # ------------------------------------------------------------------------------------------------ helpers

    def launch(self, cloud: Cloud, task: Task) -> Launched:
        """Launch the task on the small deployment."""
        deployment = self.deployment(cloud)
        return Launched(task, deployment, soon(lambda: cloud.launch(task, deployment, {})))

    def wait_for(self, cloud: Cloud, handle: Handle, condition: Callable[[TaskStatus], bool]) -> TaskStatus:
        """The first status that fits, waited for by the cloud's clock."""
        give_up_at = cloud.clock.now() + self.patience_seconds
        status = soon(lambda: cloud.status(handle))
        while not condition(status):
            assert not status.state.ended, f"it has ended before what was waited for: {status}"
            assert cloud.clock.now() < give_up_at, f"it did not come in time: {status}"
            cloud.clock.sleep(cloud.poll_seconds)
            status = soon(lambda: cloud.status(handle))
        return status

    def running(self, cloud: Cloud, task: Task) -> Launched:
        """The task, launched and waited for until it runs and costs money."""
        launched = self.launch(cloud, task)
        self.wait_for(cloud, launched.handle, lambda status: status.state is TaskState.RUNNING and status.usd > 0)
        return launched

    def ended(self, cloud: Cloud, handle: Handle) -> TaskStatus:
        """The status once it has ended."""
        return self.wait_for(cloud, handle, lambda status: status.state.ended)

    # --------------------------------------------------------------------------------------------- the promises

    def test_offers_have_a_price_and_room(self, cloud: Cloud) -> None:
        offers = list(cloud.offers())
        assert offers
        for offer in offers:
            assert offer.cloud == cloud.name
            assert offer.usd_per_hour > 0
            assert offer.max_nodes >= 1

    def test_every_offer_has_its_own_key(self, cloud: Cloud) -> None:
        keys = [Deployment(offer, 1).key for offer in cloud.offers()]
        assert len(set(keys)) == len(keys)

    def test_a_task_succeeds(self, cloud: Cloud, task: Task) -> None:
        launched = self.launch(cloud, self.succeeding(task))
        status = self.ended(cloud, launched.handle)
        assert status.state is TaskState.SUCCEEDED, status
        assert status.exit_code in (0, None)

    def test_its_times_are_in_order(self, cloud: Cloud, task: Task) -> None:
        before = cloud.clock.now()
        status = self.ended(cloud, self.launch(cloud, self.succeeding(task)).handle)
        assert status.started_at is not None
        assert status.running_at is not None
        assert status.ended_at is not None
        assert before <= status.started_at <= status.running_at <= status.ended_at <= cloud.clock.now()

    def test_a_failing_task_fails_and_costs_what_it_cost(self, cloud: Cloud, task: Task) -> None:
        failing = self.failing(task)
        if failing is None:
            pytest.skip("nothing fails on this cloud")
        status = self.ended(cloud, self.launch(cloud, failing).handle)
        assert status.state is TaskState.FAILED
        assert status.exit_code in (3, None)
        assert status.reason
        assert status.usd > 0

    def test_a_handle_is_a_plain_string(self, cloud: Cloud, task: Task) -> None:
        assert type(self.launch(cloud, self.succeeding(task)).handle) is str

    def test_launching_twice_starts_once(self, cloud: Cloud, task: Task) -> None:
        first = self.running(cloud, self.endless(task))
        second = self.launch(cloud, self.endless(task))
        assert second.handle == first.handle
        assert [owned.task_id for owned in cloud.owned()] == [task.id]

    def test_launching_again_after_the_end_starts_nothing(self, cloud: Cloud, task: Task) -> None:
        launched = self.launch(cloud, self.succeeding(task))
        before = self.ended(cloud, launched.handle)
        assert self.launch(cloud, self.succeeding(task)).handle == launched.handle
        after = cloud.status(launched.handle)
        assert (after.state, after.started_at, after.usd) == (before.state, before.started_at, before.usd)
        assert list(cloud.owned()) == []

    def test_more_nodes_than_there_are_is_refused_and_nothing_runs(self, cloud: Cloud, task: Task) -> None:
        offer = self.deployment(cloud).offer
        with pytest.raises(CloudError):
            cloud.launch(self.endless(task), Deployment(offer, offer.max_nodes + 1), {})
        assert list(cloud.owned()) == []

    def test_an_unknown_handle_is_lost_and_costs_nothing(self, cloud: Cloud) -> None:
        status = cloud.status("no such task")
        assert status.state is TaskState.LOST
        assert status.usd == 0

    def test_stopping_ends_a_task(self, cloud: Cloud, task: Task) -> None:
        launched = self.running(cloud, self.endless(task))
        soon(lambda: cloud.stop(launched.handle))
        assert self.ended(cloud, launched.handle).state is TaskState.STOPPED

    def test_stopping_right_after_the_launch_ends_a_task(self, cloud: Cloud, task: Task) -> None:
        launched = self.launch(cloud, self.endless(task))
        cloud.stop(launched.handle)
        assert self.ended(cloud, launched.handle).state is TaskState.STOPPED

    def test_stopping_twice_is_quiet(self, cloud: Cloud, task: Task) -> None:
        launched = self.running(cloud, self.endless(task))
        cloud.stop(launched.handle)
        cloud.stop(launched.handle)
        before = self.ended(cloud, launched.handle)
        cloud.stop(launched.handle)
        assert cloud.status(launched.handle).state is before.state

    def test_stopping_the_unknown_is_quiet(self, cloud: Cloud) -> None:
        cloud.stop("no such task")
        assert list(cloud.owned()) == []

    def test_what_runs_is_owned_and_what_ended_is_not(self, cloud: Cloud, task: Task) -> None:
        launched = self.running(cloud, self.endless(task))
        (owned,) = cloud.owned()
        assert (owned.handle, owned.task_id, owned.job_id) == (launched.handle, task.id, task.job_id)
        cloud.stop(launched.handle)
        self.ended(cloud, launched.handle)
        assert list(cloud.owned()) == []

    def test_money_grows_while_it_runs_and_no_longer(self, cloud: Cloud, task: Task) -> None:
        launched = self.running(cloud, self.endless(task))
        first = cloud.status(launched.handle).usd
        self.wait_for(cloud, launched.handle, lambda status: status.usd > first)
        cloud.stop(launched.handle)
        last = self.ended(cloud, launched.handle).usd
        cloud.clock.sleep(3 * cloud.poll_seconds)
        later = cloud.status(launched.handle).usd
        assert first < last == later, (first, last, later)

    def test_the_price_is_that_of_the_offer(self, cloud: Cloud, task: Task) -> None:
        launched = self.running(cloud, self.endless(task))
        cloud.stop(launched.handle)
        status = self.ended(cloud, launched.handle)
        assert status.started_at is not None
        assert status.ended_at is not None
        where, hours = launched.deployment, (status.ended_at - status.started_at) / 3600.0
        expected = where.nodes * where.offer.usd_per_hour * hours
        assert status.charges[0].usd == pytest.approx(expected, rel=0.01)

    def test_offers_that_can_be_mixed_are_rented_for_one_task(self, cloud: Cloud, task: Task) -> None:
        where = _of_two_types(list(cloud.offers()))
        if where is None:
            pytest.skip("this cloud rents one type for a task")
        task = replace(task, run='[ "$MLCD_ROLE" = worker ] || exec sleep 1000')
        status = self.ended(cloud, soon(lambda: cloud.launch(task, where, {})))
        assert status.state is TaskState.SUCCEEDED, status
        assert {str(group) for group in where.groups} <= {charge.what for charge in status.charges}
        assert list(cloud.owned()) == []

    def test_a_cloud_opened_again_still_knows_what_runs(self, cloud: Cloud, home: Path, task: Task) -> None:
        launched = self.running(cloud, self.endless(task))
        cloud.close()
        again = self.open_cloud(home)
        assert again.status(launched.handle).state is TaskState.RUNNING
        assert [owned.handle for owned in again.owned()] == [launched.handle]
        again.stop(launched.handle)
        assert self.ended(again, launched.handle).state is TaskState.STOPPED
        again.close()

    def test_a_cloud_opened_again_still_knows_what_ended(self, cloud: Cloud, home: Path, task: Task) -> None:
        launched = self.launch(cloud, self.succeeding(task))
        before = self.ended(cloud, launched.handle)
        again = self.open_cloud(home)
        after = again.status(launched.handle)
        assert (after.state, after.usd, after.ended_at) == (before.state, before.usd, before.ended_at)
        again.close()

    def test_a_task_ends_at_its_time_limit(self, cloud: Cloud, task: Task) -> None:
        limit_seconds = max(1.0, 2 * cloud.poll_seconds)
        launched = self.launch(cloud, replace(self.endless(task), max_seconds=limit_seconds))
        status = self.ended(cloud, launched.handle)
        assert (status.state, status.cause) == (TaskState.STOPPED, EndCause.TIME_LIMIT)
        assert status.reason
        assert status.started_at is not None
        assert status.ended_at is not None
        took = status.ended_at - status.started_at
        assert limit_seconds <= took <= limit_seconds + task.grace_seconds + 2.0, f"it took {took:.1f} s"

    def test_progress_is_seen_while_it_runs(self, cloud: Cloud, task: Task) -> None:
        launched = self.launch(cloud, self.reporting(task))
        first = self.wait_for(cloud, launched.handle, lambda status: status.progress.samples > 0)
        later = self.wait_for(cloud, launched.handle, lambda s: s.progress.samples > first.progress.samples)
        points = later.progress.points
        assert [point.seconds for point in points] == sorted(point.seconds for point in points)
        assert [point.samples for point in points] == sorted(point.samples for point in points)
        assert later.progress.steps > 0


def _of_two_types(offers: Sequence[Offer]) -> Deployment | None:
    """A worker and a parameter server of another type, where the cloud rents both for a task."""
    pairs = [
        (worker, server) for worker in offers for server in offers if worker.mixes and worker.mixes == server.mixes
    ]
    mixed = [Deployment(worker, 2, servers=1, server_offer=server) for worker, server in pairs if worker != server]
    return next((each for each in mixed if each.too_large is None), None)


def soon(call: Callable[[], T]) -> T:
    """What the call gives, if it gives it soon."""
    began = time.monotonic()
    answer = call()
    took = time.monotonic() - began
    assert took < SOON_SECONDS, f"a call to a cloud must return soon, and took {took:.1f} s"
    return answer
