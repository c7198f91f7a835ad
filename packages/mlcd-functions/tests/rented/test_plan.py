"""What is rented for a parameter store, and what is refused or checked before anything is paid for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest

from mlcd.clouds.ec2.settings import Ec2Settings
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.task import Task, TaskKind
from mlcd.core.view import Finding
from mlcd.errors import UserError
from mlcd.settings import Settings
from mlcd_functions.cloud import FunctionsCloud
from mlcd_functions.rented import checks
from mlcd_functions.rented.checks import check_store
from mlcd_functions.rented.plan import (
    StorePlan,
    ec2_settings,
    list_usd_per_hour,
    program_folder,
    refuse_too_small,
    store_task,
)
from mlcd_functions.settings import FunctionsSettings
from mlcd_functions.stores import refuse_storeless, rents_store

moto = pytest.importorskip("moto")
AWAY = FunctionsSettings(
    endpoint="aws", objects="s3://b/p", subnets="subnet-1", security_groups="sg-1", role="arn:aws:iam::1:role/r"
)
OFFER = Offer("ec2", InstanceType("c5n.large", 2.0, 5.25), 0.108, 4)


def test_at_aws_a_store_is_rented_unless_another_one_is_named() -> None:
    assert rents_store(AWAY)
    assert not rents_store(replace(AWAY, parameters="rediss://mine"))
    assert not rents_store(FunctionsSettings())
    assert rents_store(FunctionsSettings(parameters="ec2"))
    assert not rents_store(replace(AWAY, subnets="")), "whoever has no VPC needs no permissions of EC2"


def test_it_stands_where_the_functions_reach_it(tmp_path: Path) -> None:
    users = Ec2Settings(regions="eu-west-1", image="ami-1", lease_seconds=600.0, disk_gib=200)
    ec2 = ec2_settings(Settings(home=tmp_path, clouds=(users,)), AWAY)
    assert (ec2.regions, ec2.types, ec2.subnets, ec2.let_in) == ("us-east-1", "c5n.large", "subnet-1", "sg-1")
    assert (ec2.image, ec2.lease_seconds, ec2.disk_gib) == ("ami-1", 600.0, 8)
    beside = ec2_settings(Settings(home=tmp_path), replace(AWAY, store_subnets="subnet-2"))
    assert beside.subnets == "subnet-2"


@pytest.mark.parametrize("missing", ["subnets", "security_groups"])
def test_functions_that_could_not_reach_it_are_not_launched(tmp_path: Path, missing: str) -> None:
    away = replace(AWAY, **{missing: ""})
    for storeless in (away, replace(away, parameters="ec2"), FunctionsSettings(endpoint="http://localhost:1")):
        cloud = FunctionsCloud(Settings(home=tmp_path, clouds=(storeless,)))
        small = cloud.offers()[0]
        with pytest.raises(UserError, match="in their VPC alone"):
            cloud.refuse(Deployment(small, 2))
    refuse_storeless(FunctionsSettings(parameters="ec2"))
    refuse_storeless(FunctionsSettings())
    refuse_storeless(AWAY)


def test_what_does_not_fit_the_machine_is_refused() -> None:
    refuse_too_small(OFFER, replace(AWAY, store_memory_mb=4864))
    with pytest.raises(UserError, match="4864 MB for the parameter store"):
        refuse_too_small(OFFER, replace(AWAY, store_memory_mb=4865))


def test_a_type_without_a_known_price_is_told() -> None:
    assert list_usd_per_hour(replace(AWAY, store_type="t3.small")) == pytest.approx(0.0208 + 8 * 0.08 / 730 + 0.005)
    with pytest.raises(UserError, match=r"functions\.store_type"):
        list_usd_per_hour(replace(AWAY, store_type="c99.large"))


def test_a_probe_on_several_functions_takes_as_long_as_a_machine_needs_to_boot_on_top(tmp_path: Path) -> None:
    away = FunctionsCloud(Settings(home=tmp_path, clouds=(AWAY, Ec2Settings(start_seconds=70.0))))
    time, here = away.expected_probe(10.0), FunctionsCloud(Settings(home=tmp_path)).expected_probe(10.0)
    assert time.seconds(2) - time.seconds(1) == 71.0
    assert here.seconds(2) - here.seconds(1) == 1.0


def test_the_password_is_in_no_word_of_its_task_and_the_limit_is_the_task_s(tmp_path: Path) -> None:
    plan = StorePlan(Ec2Settings(python="/opt/venv/bin/python"), OFFER, "tell-nobody")
    task = Task("j-t1", "j", TaskKind.TRAINING, "pytorch", "train", envs={"KEY": "1"}, max_seconds=600.0)
    made = store_task(task, "j-t1+store-1", plan, AWAY, tmp_path, 300.0)
    assert "tell-nobody" not in f"{made}{plan}"
    assert (made.job_id, made.max_seconds, made.run) == ("j", 360.0, "exec /opt/venv/bin/python serve.py")
    assert "KEY" not in made.envs
    names = {path.name for path in Path(made.workdir).iterdir()}
    assert names == {"serve.py", "valkey-server"}
    assert os.access(Path(made.workdir) / "valkey-server", os.X_OK)
    assert program_folder(tmp_path) == Path(made.workdir), "made once"


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    # Moto has no quotas and no prices; with an emulated EC2 all is looked at, in test_store.py.
    monkeypatch.setattr(checks, "check_account", lambda *_: [Finding("credentials", True, "")])
    monkeypatch.setattr(checks, "make_plan", lambda *_: StorePlan(Ec2Settings(), OFFER, ""))
    with moto.mock_aws():
        yield boto3.client("ec2", "us-east-1")


def findings(home: Path, **changes: str) -> dict[str, Finding]:
    ours = replace(AWAY, **changes)
    found = check_store(Settings(home=home, clouds=(ours,)), ours)
    return {finding.what.removeprefix("parameter store: "): finding for finding in found}


def test_what_is_missing_for_renting_is_said_with_what_to_do(account: Any, tmp_path: Path) -> None:
    vpc = account.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    net = account.create_subnet(VpcId=vpc, CidrBlock="10.9.1.0/24")["Subnet"]["SubnetId"]
    group = account.create_security_group(GroupName="functions", Description="d", VpcId=vpc)["GroupId"]
    found = findings(tmp_path, subnets=net, security_groups=group)
    assert (found["way from here"].ok, "functions.store_subnets" in found["way from here"].hint) == (False, True)
    assert found["way from functions"].ok
    gateway = account.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    account.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    only = [{"Name": "vpc-id", "Values": [vpc]}]
    table = account.describe_route_tables(Filters=only)["RouteTables"][0]["RouteTableId"]
    account.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
    everything = [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]
    account.revoke_security_group_egress(GroupId=group, IpPermissions=everything)
    found = findings(tmp_path, subnets=net, security_groups=group)
    assert found["way from here"].ok, found["way from here"]
    assert (found["way from functions"].ok, "6379" in found["way from functions"].hint) == (False, True)


def test_a_subnet_that_is_not_there_is_told(account: Any, tmp_path: Path) -> None:
    found = findings(tmp_path, subnets="subnet-0123456789abcdef0")
    assert not found["way from here"].ok
    assert "Fix the subnets" in found["way from here"].hint
