"""What a task on EC2 costs, to the cent and in lines."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ec2_settings import ec2_settings
from mlcd.clouds.ec2 import open_cloud
from mlcd.clouds.ec2.billing import charges
from mlcd.clouds.ec2.prices import SPOT_SECONDS, SpotHistory
from mlcd.clouds.remote.base import Machine
from mlcd.clouds.remote.files import Spec, State
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.serial import to_json
from mlcd.core.task import Task, TaskKind

OFFER = Offer("ec2", InstanceType("c5.large", 2, 4), usd_per_hour=3.6, max_nodes=8)  # a tenth of a cent a second
SPEC = Spec(Task("t", "j", TaskKind.TRAINING, "command", "true"), Deployment(OFFER, 2), "", 0.0, "", {})
PAIR = (Machine("i-1", "h", "a", billed_from=1000.0), Machine("i-2", "h", "a", billed_from=1000.0))


def lines(state: State, now: float) -> dict[str, float]:
    return {charge.what: charge.usd for charge in charges(SPEC, state, now, disk_gib=73.0)}


def test_an_hour_of_two_machines_has_disk_addresses_and_data() -> None:
    state = State(machines=PAIR, started_at=1000.0, received_bytes=2_000_000_000)
    assert lines(state, 4600.0) == {
        "2 × c5.large": pytest.approx(7.2),
        "disk": pytest.approx(2 * 73.0 * 0.08 / 730),
        "public addresses": pytest.approx(0.01),
        "data out": pytest.approx(0.18),
    }


def test_less_than_a_minute_costs_a_minute() -> None:
    bill = lines(State(machines=PAIR, started_at=1000.0), 1020.0)
    assert bill["2 × c5.large"] == pytest.approx(0.04)
    assert bill["minimum of 60 s each"] == pytest.approx(0.08)


def test_what_waits_for_the_next_task_is_paid_once() -> None:
    first = State(machines=PAIR, started_at=1000.0, warm=("i-1", "i-2"), warm_until=1145.0)
    paid = lines(first, 1100.0)
    assert paid["kept ready for the next task"] == pytest.approx(0.09)
    taken = tuple(replace(machine, billed_from=1105.0, paid_until=1145.0, rented_at=1000.0) for machine in PAIR)
    second = lines(State(machines=taken, started_at=1105.0), 1205.0)
    assert second["paid while kept ready"] == pytest.approx(-0.08)
    assert second["2 × c5.large"] + paid["2 × c5.large"] == pytest.approx(0.4)
    whole = sum(paid.values()) + sum(second.values())
    alone = sum(lines(State(machines=PAIR, started_at=1000.0), 1205.0).values())
    assert whole == pytest.approx(alone, rel=0.01)


@pytest.mark.parametrize("kept_until", [1045.0, 1065.0])
@pytest.mark.parametrize("ended_at", [1030.0, 1050.0, 1100.0])
def test_the_minimum_is_of_a_machines_whole_life(kept_until: float, ended_at: float) -> None:
    kept = State(machines=PAIR, started_at=1000.0, warm=("i-1", "i-2"), warm_until=kept_until)
    taken = tuple(replace(machine, billed_from=1022.0, paid_until=kept_until, rented_at=1000.0) for machine in PAIR)
    bills = lines(kept, 1020.0), lines(State(machines=taken, started_at=1022.0), ended_at)
    beside = ("disk", "public addresses")
    machines = sum(usd for bill in bills for what, usd in bill.items() if what not in beside)
    assert machines == pytest.approx(2 * max(60.0, ended_at - 1000.0) * 0.001)


def test_a_machine_that_was_given_back_early_costs_no_more() -> None:
    state = State(machines=PAIR, started_at=1000.0, billed_to={"i-2": 1100.0})
    assert lines(state, 1200.0)["machines given back early"] == pytest.approx(-0.1)


def test_spot_costs_what_its_zone_costs() -> None:
    dear = tuple(replace(machine, details={"usd_per_hour": "7.2"}) for machine in PAIR)
    bill = lines(State(machines=dear, started_at=1000.0), 1100.0)
    assert bill["2 × c5.large"] + bill["spot price of the zone"] == pytest.approx(0.4)


def test_a_spot_price_that_rises_is_on_the_bill_from_then_on() -> None:
    zoned = tuple(replace(machine, zone="a", details={"usd_per_hour": "3.6"}) for machine in PAIR)
    state = State(machines=zoned, started_at=1000.0)
    risen = SpotHistory(at=1200.0, since=1000.0, zones={"a": ((500.0, 3.6), (1100.0, 7.2)), "b": ((0.0, 99.0),)})
    bill = {charge.what: charge.usd for charge in charges(SPEC, state, 1200.0, 73.0, risen)}
    # Two machines, a hundred seconds at a tenth of a cent and a hundred at twice that.
    assert bill["2 × c5.large"] + bill["spot price of the zone"] == pytest.approx(2 * (0.1 + 0.2))
    assert "spot price of the zone" not in lines(state, 1200.0)


def test_without_a_history_of_its_zone_a_machine_costs_what_it_was_rented_for() -> None:
    history = SpotHistory(at=1200.0, since=1000.0, zones={"b": ((0.0, 99.0),)})
    dear = tuple(replace(machine, zone="a", details={"usd_per_hour": "7.2"}) for machine in PAIR)
    bill = charges(SPEC, State(machines=dear, started_at=1000.0), 1100.0, 73.0, history)
    assert sum(line.usd for line in bill if line.what in ("2 × c5.large", "spot price of the zone")) == pytest.approx(
        0.4
    )


@pytest.fixture
def no_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are no credentials, and so AWS cannot be asked."""
    pytest.importorskip("boto3", reason="pip install 'mlcd[ec2]'")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.usefixtures("no_account")
def test_while_aws_cannot_be_asked_a_spot_bill_keeps_to_the_prices_heard_last(tmp_path: Path) -> None:
    heard = SpotHistory(at=1100.0, since=1000.0, zones={"a": ((500.0, 3.6), (1100.0, 7.2))})
    cloud = open_cloud(ec2_settings(tmp_path), {})
    kept = cloud.home / "prices" / "spot-history-us-east-1-c5.large.json"
    kept.parent.mkdir(parents=True)
    kept.write_text(to_json(heard))
    spot = Deployment(replace(OFFER, spot=True, region="us-east-1"), 2)
    spec = replace(SPEC, deployment=spot, options={"settings": {"disk_gib": 73.0}})
    zoned = tuple(replace(machine, zone="a", details={"usd_per_hour": "3.6"}) for machine in PAIR)
    state, now = State(machines=zoned, started_at=1000.0), heard.at + SPOT_SECONDS
    for _ in range(2):  # AWS refuses, and then is not asked again at once
        machines, difference = cloud.charges(spec, state, now)[:2]
        # Two machines, a hundred seconds at a tenth of a cent and the rest at twice that.
        assert difference.what == "spot price of the zone"
        assert machines.usd + difference.usd == pytest.approx(2 * (0.1 + SPOT_SECONDS * 0.002))
