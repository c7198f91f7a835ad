"""Hosts of the emulated EC2: they boot, are reached by ssh, and go."""

from __future__ import annotations

import subprocess
import tempfile
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from emulated import EmulatedEc2, wait_for
from mlcd_emulate.cgroups import CgroupsV2
from mlcd_emulate.emulation import Emulation
from mlcd_emulate.host import Host, HostSpec
from mlcd_emulate.scale import HostSize

pytestmark = pytest.mark.slow


def test_hosts_are_reached_by_ssh_with_the_imported_key(ec2: EmulatedEc2) -> None:
    one, two = ec2.launch(2)
    assert ec2.ssh(one, "hostname").stdout.strip() == f"ip-{one.replace('.', '-')}"
    assert ec2.ssh(two, "whoami", user="root").stdout.strip() == "root"
    assert ec2.ssh(two, "whoami; sudo whoami", user="ec2-user").stdout.split() == ["ec2-user", "root"]


def test_a_host_does_not_run_what_this_computers_root_starts_its_shell_with(ec2: EmulatedEc2) -> None:
    (address,) = ec2.launch()
    seen = ec2.ssh(address, "cd && cat .bashrc .bash_profile .profile | wc --bytes; stat -c %U .", user="root")
    assert seen.stdout.split() == ["0", "root"]


def test_the_api_tells_where_a_host_is(ec2: EmulatedEc2) -> None:
    (address,) = ec2.launch()
    instance = ec2.instance(address)
    assert instance["State"]["Name"] == "running"
    assert instance["PublicIpAddress"] == address


def test_a_terminated_instance_has_no_host(ec2: EmulatedEc2) -> None:
    (address,) = ec2.launch()
    ec2.boto("ec2").terminate_instances(InstanceIds=[ec2.instance(address)["InstanceId"]])
    wait_for(lambda: not ec2.hosts(), "the host to go")
    assert ec2.ssh(address, "true").returncode == 255


@pytest.mark.timeout(60)
def test_a_host_that_goes_before_its_first_process_is_in_its_group_is_ended(tmp_path: Path) -> None:
    spec = HostSpec("i-1", IPv4Address("10.72.0.4"), 16, HostSize(0.1, 512, 10.0, 256))
    host = Host(Emulation("lab", tmp_path), spec, CgroupsV2("lab", tmp_path))
    host._process = subprocess.Popen(["sleep", "600"])
    assert host.processes() == set()
    host.end_processes()
    assert host.ended() is not None


def test_user_data_runs_as_root_when_a_host_boots(ec2: EmulatedEc2) -> None:
    (address,) = ec2.launch(UserData="#!/bin/sh\nid -un > /var/tmp/who\nsleep 1\n")
    seen = ec2.ssh(address, "cloud-init status --wait; cat /var/tmp/who")
    assert seen.stdout.split("\n")[:2] == ["status: done", "root"]


@pytest.mark.parametrize(("behaviour", "state"), [("terminate", "terminated"), ("stop", "stopped")])
def test_powering_off_from_inside_ends_the_instance(ec2: EmulatedEc2, behaviour: str, state: str) -> None:
    (address,) = ec2.launch(InstanceInitiatedShutdownBehavior=behaviour)
    ec2.ssh(address, "sudo shutdown -h now")
    wait_for(lambda: ec2.instance(address)["State"]["Name"] == state, state)
    assert ec2.instance(address)["StateReason"]["Code"] == "Client.InstanceInitiatedShutdown"


def test_a_shutdown_can_be_set_for_later_and_called_off(ec2: EmulatedEc2) -> None:
    (address,) = ec2.launch()
    assert ec2.ssh(address, "shutdown -h +10", user="ubuntu").returncode != 0, "only root may"
    assert ec2.ssh(address, "shutdown -h +10 && test -s /run/shutdown.pid", user="root").returncode == 0
    assert ec2.ssh(address, "shutdown -c && test ! -e /run/shutdown.pid", user="root").returncode == 0


def test_a_host_has_a_share_of_this_computer(ec2: EmulatedEc2) -> None:
    (address,) = ec2.launch(instance_type="c5n.large")
    (host,) = ec2.hosts()
    assert (host["cores"], host["memory_mib"], host["network_mbit"]) == (0.1, 1344, 150.0)
    assert ec2.ssh(address, "grep MemTotal /proc/meminfo").stdout.split()[1] == str(1344 * 1024)


def test_what_a_host_writes_stays_in_it(ec2: EmulatedEc2) -> None:
    one, two = ec2.launch(2)
    assert ec2.ssh(one, "echo mine | sudo tee /etc/mark /tmp/mark").returncode == 0
    assert ec2.ssh(two, "cat /etc/mark /tmp/mark").returncode != 0
    with tempfile.NamedTemporaryFile(dir="/tmp") as others:
        seen = ec2.ssh(two, "ls -A /tmp").stdout.split()
        assert Path(others.name).name not in seen, "nor does it see what others keep in /tmp"


def test_a_host_has_the_memory_of_its_type_and_a_disk_besides(ec2: EmulatedEc2) -> None:
    (address,) = ec2.launch(BlockDeviceMappings=[{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 30}}])
    written = ec2.ssh(address, "head -c 1500M /dev/zero > ~/file && df -m / | tail -1")
    assert int(written.stdout.split()[2]) >= 1500, "more than the memory of 1024 MiB"
    hungry = ec2.ssh(address, "python3 -c 'bytearray(1800 * 2**20)'; echo $?")
    assert hungry.stdout.strip() == "137"
    assert ec2.ssh(address, "true").returncode == 0, "only the hungry program is killed"


def test_hosts_take_the_network_card_that_they_are_launched_with(ec2: EmulatedEc2) -> None:
    client = ec2.boto("ec2")
    only = [
        {"Name": "default-for-az", "Values": ["true"]},
        {"Name": "availability-zone", "Values": ["us-east-1c"]},
    ]
    (subnet,) = client.describe_subnets(Filters=only)["Subnets"]
    group = client.create_security_group(GroupName="card", Description="test", VpcId=subnet["VpcId"])["GroupId"]
    card = {
        "DeviceIndex": 0,
        "SubnetId": subnet["SubnetId"],
        "AssociatePublicIpAddress": True,
        "Groups": [group],
    }
    (address,) = ec2.launch(NetworkInterfaces=[card], MetadataOptions={"HttpTokens": "required"})
    instance = ec2.instance(address)
    assert instance["Placement"]["AvailabilityZone"] == "us-east-1c"
    assert instance["PublicIpAddress"] == address
    assert [each["GroupId"] for each in instance["SecurityGroups"]] == [group]
    refused = ec2.ssh(address, "curl -s -o /dev/null -w '%{http_code}' http://169.254.169.254/latest/meta-data/")
    assert refused.stdout == "401", "a token is required"


def test_a_host_cannot_reach_for_the_switch_of_this_computer(ec2: EmulatedEc2) -> None:
    (address,) = ec2.launch()
    trigger = ec2.ssh(address, "stat -c %t:%T /proc/sysrq-trigger", user="root").stdout.strip()
    assert trigger in ("1:3", ""), "/dev/null, or not in this kernel"
    assert ec2.ssh(address, "sysctl -w kernel.panic=7", user="root").returncode != 0


def test_the_console_tells_the_key_of_the_host(ec2: EmulatedEc2) -> None:
    (address,) = ec2.launch()
    said = ec2.boto("ec2").get_console_output(InstanceId=ec2.instance(address)["InstanceId"])["Output"]
    told = said.split("-----BEGIN SSH HOST KEY KEYS-----")[1].split()[:2]
    scanned = subprocess.run(("ssh-keyscan", "-t", "ed25519", address), capture_output=True, text=True, check=True)
    assert scanned.stdout.split()[1:] == told


def test_a_host_boots_again_with_a_fresh_disk(ec2: EmulatedEc2) -> None:
    (address,) = ec2.launch(UserData="#!/bin/sh\ndate +%s%N > /var/tmp/booted\n")
    first = ec2.ssh(address, "touch ~/mine; cloud-init status --wait >/dev/null; cat /var/tmp/booted").stdout
    ec2.ssh(address, "sudo reboot")

    def booted_again() -> bool:
        state = ec2.instance(address)["State"]["Name"]
        assert state == "running", f"{state}: {ec2.emulation.log_file.read_text()[-2000:]}"
        return ec2.ssh(address, "cat /var/tmp/booted").stdout not in ("", first)

    wait_for(booted_again, "the next boot")
    assert ec2.ssh(address, "ls -A ~/mine").returncode != 0
    assert ec2.instance(address)["State"]["Name"] == "running"
