"""What belongs to nobody is found and ended; what belongs to someone else is left alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from mlcd import registry
from mlcd.api import Client
from mlcd.core.clock import SystemClock
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.records import TaskRecord
from mlcd.core.task import Owned, Task, TaskKind
from mlcd.core.view import IncompleteSweepError
from mlcd.engine.context import JobContext
from mlcd.engine.control import controlling
from mlcd.engine.controller import end_open_tasks, open_cloud
from mlcd.engine.sweep import sweep
from mlcd.errors import CloudError
from small_jobs import MakeJob


class Provider:
    """A cloud that knows what is rented, and hears what shall end."""

    name = "provider"

    def __init__(self, *rented: Owned) -> None:
        self.clock = SystemClock()
        self.rented = rented
        self.ended: list[str] = []

    def owned(self) -> Iterable[Owned]:
        return self.rented

    def stop(self, handle: str) -> None:
        self.ended.append(handle)

    def close(self) -> None:
        pass


class Away(Provider):
    """One that does not answer."""

    def owned(self) -> Iterable[Owned]:
        raise CloudError("It is away.", "Wait.")


class Deaf(Provider):
    """One that may not end what is stuck."""

    def stop(self, handle: str) -> None:
        if handle == "stuck":
            raise CloudError("The account may not terminate instances.")
        super().stop(handle)


def rented(handle: str, leased_for: float | None = None) -> Owned:
    now = SystemClock().now()
    until = None if leased_for is None else now + leased_for
    return Owned(handle, handle, "unknown", "1 × c5.large", now - 60, leased_until=until)


@pytest.fixture
def providers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Provider]:
    """Clouds by their names, filled by a test."""
    known: dict[str, Provider] = {}
    monkeypatch.setattr(registry, "load", lambda _kind, name: lambda _settings, _options: known[name])
    return known


def swept(client: Client, *clouds: str, **flags: Any) -> dict[str, bool]:
    given = {"end": True, "others": False, **flags}
    return {s.owned.handle: s.ended for s in sweep(client.store, client.settings, clouds, **given)}


def test_what_another_computer_looks_after_is_listed_and_left_alone(
    client: Client, providers: dict[str, Provider]
) -> None:
    provider = providers["a"] = Provider(rented("theirs", leased_for=600), rented("left", leased_for=-5))
    assert swept(client, "a") == {"theirs": False, "left": True}
    assert provider.ended == ["left"]
    assert swept(client, "a", others=True) == {"theirs": True, "left": True}


def test_a_training_whose_controller_died_is_listed_and_left_alone(
    client: Client, make_job: MakeJob, request: pytest.FixtureRequest
) -> None:
    job_id = client.submit(client.load(make_job()))
    providers = request.getfixturevalue("providers")  # from now on there is no other cloud
    offer = Offer("a", InstanceType("m", vcpus=1), usd_per_hour=1.0, max_nodes=1)
    with controlling(client.store, job_id) as token:
        assert token is not None
        record = TaskRecord("j-t1", job_id, TaskKind.TRAINING, 1, Deployment(offer, 1), "a", 0.0)
        client.store.add_task(record, token)
    providers["a"] = Provider(Owned("orphan", record.id, job_id, "1 × m", 0.0))
    assert swept(client, "a") == {"orphan": False}
    assert swept(client, "a", others=True) == {"orphan": True}


def test_a_machine_that_waits_for_the_next_task_of_a_job_at_work_is_not_listed(
    client: Client, make_job: MakeJob, request: pytest.FixtureRequest
) -> None:
    job_id = client.submit(client.load(make_job()))
    providers = request.getfixturevalue("providers")  # from now on there is no other cloud
    now = SystemClock().now()
    kept = Owned("kept", "j-p1", job_id, "1 × m", now - 60, kept_until=now + 60)
    providers["a"] = Provider(kept, replace(kept, handle="forgotten", kept_until=now - 1))
    with controlling(client.store, job_id):
        assert swept(client, "a", end=False) == {"forgotten": False}
    assert swept(client, "a", end=False) == {"kept": False, "forgotten": False}, "nobody is at work"


def test_a_cloud_that_cannot_be_asked_does_not_spare_the_others(client: Client, providers: dict[str, Provider]) -> None:
    providers["a"], providers["b"] = Away(), Provider(rented("left"))
    with pytest.raises(IncompleteSweepError, match=r"a: It is away\.") as caught:
        swept(client, "a", "b")
    assert [(stray.owned.handle, stray.ended) for stray in caught.value.strays] == [("left", True)]
    assert providers["b"].ended == ["left"]


def test_what_one_cloud_does_not_end_is_told_and_the_rest_is_ended(
    client: Client, providers: dict[str, Provider]
) -> None:
    providers["a"] = Deaf(rented("stuck"), rented("left"))
    with pytest.raises(IncompleteSweepError, match="may not terminate") as caught:
        swept(client, "a")
    assert {stray.owned.handle: stray.ended for stray in caught.value.strays} == {
        "stuck": False,
        "left": True,
    }


def test_clouds_that_were_used_together_are_asked_one_by_one_and_once(
    client: Client, providers: dict[str, Provider]
) -> None:
    providers["a"], providers["b"] = Away(), Provider(rented("left"))
    with pytest.raises(IncompleteSweepError) as caught:
        swept(client, "a+b", "b")
    assert [stray.owned.handle for stray in caught.value.strays] == ["left"]


def test_what_was_launched_by_a_controller_that_died_before_it_wrote_it_down_is_ended(
    client: Client, make_job: MakeJob
) -> None:
    job_id = client.submit(client.load(make_job()))
    cloud = open_cloud(client.settings, client.store.job(job_id))
    with controlling(client.store, job_id) as token:
        assert token is not None
        context = JobContext(client.store, cloud, client.settings, job_id, token, {})
        record = context.intend(TaskKind.PROBE, Deployment(next(iter(cloud.offers())), 1))
        task = Task(record.id, job_id, TaskKind.PROBE, "command", "sleep 1000", grace_seconds=1.0)
        cloud.launch(task, record.deployment, {})
        end_open_tasks(context)
    assert list(cloud.owned()) == []
    assert not client.store.tasks(job_id, open_only=True)
    assert {item.task_id for item in client.view(job_id).bill} == {record.id}
    cloud.close()
