"""What machines stand on: who may reach them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ec2_settings import ec2_settings
from emulated import EmulatedEc2
from mlcd.clouds.ec2.account import Account
from mlcd.clouds.ec2.ground import security_group, subnets
from mlcd.clouds.ec2.settings import Ec2Settings
from mlcd.errors import UserError

pytestmark = pytest.mark.slow


def doors(ec2: EmulatedEc2, group: str) -> list[str]:
    """The addresses from which a security group lets ssh in."""
    (found,) = ec2.boto("ec2").describe_security_groups(GroupIds=[group])["SecurityGroups"]
    rules = [rule for rule in found["IpPermissions"] if rule.get("FromPort") == 22]
    return [each["CidrIp"] for rule in rules for each in rule["IpRanges"]]


def test_narrowing_who_may_reach_the_machines_leaves_no_wider_door_open(ec2: EmulatedEc2, tmp_path: Path) -> None:
    account = Account(ec2_settings(tmp_path).of(Ec2Settings))
    vpc = subnets(account, "us-east-1")[0]["VpcId"]
    wide = security_group(account, "us-east-1", vpc, "0.0.0.0/0")
    narrow = security_group(account, "us-east-1", vpc, "203.0.113.0/24")
    assert doors(ec2, narrow) == ["203.0.113.0/24"]
    assert doors(ec2, wide) == ["0.0.0.0/0"], "whoever shares the account still reaches his machines"
    assert security_group(account, "us-east-1", vpc, "203.0.113.0/24") == narrow, "made once"


def test_machines_of_one_group_reach_each_other(ec2: EmulatedEc2, tmp_path: Path) -> None:
    account = Account(ec2_settings(tmp_path).of(Ec2Settings))
    vpc = subnets(account, "us-east-1")[0]["VpcId"]
    group = security_group(account, "us-east-1", vpc, "198.51.100.7/32")
    (found,) = ec2.boto("ec2").describe_security_groups(GroupIds=[group])["SecurityGroups"]
    within = [pair["GroupId"] for rule in found["IpPermissions"] for pair in rule["UserIdGroupPairs"]]
    assert within == [group]


def test_a_group_that_is_let_in_gets_a_group_of_machines_of_its_own(ec2: EmulatedEc2, tmp_path: Path) -> None:
    account = Account(ec2_settings(tmp_path).of(Ec2Settings))
    vpc = subnets(account, "us-east-1")[0]["VpcId"]
    functions = ec2.boto("ec2").create_security_group(GroupName="functions", Description="d", VpcId=vpc)["GroupId"]
    open_one = security_group(account, "us-east-1", vpc, "0.0.0.0/0", functions)
    assert open_one != security_group(account, "us-east-1", vpc, "0.0.0.0/0")
    assert security_group(account, "us-east-1", vpc, "0.0.0.0/0", f" {functions},") == open_one, "made once"
    (found,) = ec2.boto("ec2").describe_security_groups(GroupIds=[open_one])["SecurityGroups"]
    let_in = {pair["GroupId"] for rule in found["IpPermissions"] for pair in rule["UserIdGroupPairs"]}
    assert let_in == {open_one, functions}


def test_machines_are_rented_in_the_subnets_that_are_named(ec2: EmulatedEc2, tmp_path: Path) -> None:
    account = Account(ec2_settings(tmp_path).of(Ec2Settings))
    every = [net["SubnetId"] for net in subnets(account, "us-east-1")]
    named = subnets(account, "us-east-1", f"{every[1]}, {every[0]}")
    assert {net["SubnetId"] for net in named} == set(every[:2])
    with pytest.raises(UserError, match="subnet-0123"):
        subnets(account, "us-east-1", "subnet-0123456789abcdef0")
