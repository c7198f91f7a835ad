"""What the provider's own records say of the machines that a job has had, to hold the bill against."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from emulated import EmulatedEc2, wait_for
from mlcd.api import Client
from mlcd.core.records import BillItem
from mlcd.core.task import Charge

LATE_S = 8.0  # a machine is billed from when it is asked for, and until its end is known here
LEAST_SECONDS = 60.0  # that AWS charges for an instance
_MACHINES = re.compile(r"\d+ × |machines given back early|kept ready|paid while kept ready|minimum of")
_ENDED = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC\)")


@dataclass(frozen=True)
class Life:
    """An instance from its launch to its end."""

    id: str
    type: str
    launched_by: str  # the task
    launched_at: float
    ended_at: float | None  # None: it lives, or nobody knows when it died

    @property
    def charged_seconds(self) -> float:
        """What AWS charges for."""
        assert self.ended_at is not None, f"{self.id} still runs"
        return max(LEAST_SECONDS, self.ended_at - self.launched_at)


def assert_bill_is_true(
    ec2: EmulatedEc2,
    client: Client,
    job_id: str,
    died: Mapping[str, float] | None = None,
    late_seconds: float = LATE_S,
) -> None:
    """Every machine is paid once, from its launch to its end, and none runs any more."""
    wait_for(lambda: not client.sweep() and not ec2.hosts(), "the last machines to be given back")
    view, machines = client.view(job_id), lives(ec2, job_id, died)
    prices = {offer.instance.name: offer.usd_per_hour / 3600.0 for offer in view.record.deployment.types}

    def usd(more_seconds: float) -> float:
        return sum((life.charged_seconds + more_seconds) * prices[life.type] for life in machines)

    assert usd(-2.0) < machine_usd(view.bill) < usd(late_seconds)
    assert sum(item.usd for item in view.bill) == pytest.approx(view.spent.usd)


def lives(ec2: EmulatedEc2, job_id: str, died: Mapping[str, float] | None = None) -> list[Life]:
    """Every instance that was ever rented for the job; `died`: when those ended of which the API does not say it."""
    only = [{"Name": "tag:mlcd:job", "Values": [job_id]}]
    found = ec2.boto("ec2").describe_instances(Filters=only)["Reservations"]
    return [_life(one, died or {}) for each in found for one in each["Instances"]]


def machine_usd(bill: Iterable[BillItem | Charge]) -> float:
    """What of a bill is for the machines themselves, without disk, addresses and data."""
    return sum(item.usd for item in bill if _MACHINES.match(item.what))


def _life(one: dict[str, Any], died: Mapping[str, float]) -> Life:
    tags = {tag["Key"]: tag["Value"] for tag in one["Tags"]}
    ended = _ENDED.search(one.get("StateTransitionReason", ""))
    moment = datetime.fromisoformat(ended[1]).replace(tzinfo=UTC).timestamp() if ended else None
    return Life(
        id=one["InstanceId"],
        type=one["InstanceType"],
        launched_by=tags["Name"].removeprefix("mlcd "),
        launched_at=one["LaunchTime"].timestamp(),
        ended_at=died.get(one["InstanceId"], moment),
    )
