"""Every fault shows its effect, and is gone when it is lifted."""

from __future__ import annotations

import json
import time

import pytest

from emulated import EmulatedEc2, wait_for
from mlcd.errors import NotFoundError, UserError

pytestmark = pytest.mark.slow
TOKEN = "TOKEN=$(curl -s -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' http://169.254.169.254/latest/api/token)"
METADATA = f'{TOKEN}; curl -sf -H "X-aws-ec2-metadata-token: $TOKEN" http://169.254.169.254/latest/meta-data'

ECHO = """
import socket
echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
echo.bind(('', 7000))
while True: echo.sendto(*echo.recvfrom(99))
"""
PROBE = """
import socket, sys
probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
probe.settimeout(0.2)
lost = 0
for number in range(100):
    probe.sendto(str(number).encode(), (sys.argv[1], 7000))
    try:
        while probe.recv(99) != str(number).encode(): pass
    except OSError: lost += 1
print(lost)
"""


def test_kill_ends_what_came_by_ssh_and_spares_what_came_with_the_boot(ec2: EmulatedEc2) -> None:
    (host,) = ec2.launch(UserData="#!/bin/sh\nexec sleep 1111\n")
    ec2.ssh(host, "setsid sleep 2222 >/dev/null 2>&1 </dev/null &")
    wait_for(lambda: _sleeps(ec2, host) == {"1111", "2222"}, "both to run")
    ec2.fault("kill", host)
    assert _sleeps(ec2, host) == {"1111"}
    assert ec2.instance(host)["State"]["Name"] == "running"


def test_poweroff_ends_the_instance_with_a_reason(ec2: EmulatedEc2) -> None:
    (host,) = ec2.launch()
    ec2.fault("poweroff", host)
    wait_for(lambda: ec2.instance(host)["State"]["Name"] == "terminated", "the API to know")
    assert ec2.instance(host)["StateReason"]["Code"] == "Server.InternalError"
    wait_for(lambda: not ec2.hosts(), "the host to go")


def test_a_cut_host_is_out_of_reach_until_the_cut_is_fixed(ec2: EmulatedEc2) -> None:
    one, two = ec2.launch(2)
    ec2.fault("cut", one)
    assert not _pings(ec2, two, one)
    ec2.fault("cut", one, "off")
    wait_for(lambda: _pings(ec2, two, one), "the link to come back")
    assert ec2.ssh(one, "true").returncode == 0


def test_slow_divides_the_share_of_the_cpu(ec2: EmulatedEc2) -> None:
    (host,) = ec2.launch(instance_type="c5.2xlarge")
    ec2.ssh(host, "setsid sh -c 'while :; do :; done' >/dev/null 2>&1 </dev/null &")
    wait_for(lambda: ec2.hosts()[0]["cpu_limited"], "the credit to be used up")
    wait_for(lambda: _share(ec2) < 0.5, "0.4 of a core; less where other work takes the cores")
    ec2.fault("slow", host, "40")
    wait_for(lambda: _share(ec2) < 0.02, "0.01 of a core")
    ec2.fault("slow", host, "off")
    wait_for(lambda: _share(ec2) > 0.03, "the host to be itself again")


def test_loss_drops_packets(ec2: EmulatedEc2) -> None:
    one, two = ec2.launch(2)
    ec2.ssh(one, f'setsid python3 -c "{ECHO}" >/dev/null 2>&1 </dev/null &')
    wait_for(lambda: _lost_of_100(ec2, two, one) == 0, "the echo")
    ec2.fault("loss", one, "20")
    assert 15 < _lost_of_100(ec2, two, one) < 60, "36 of 100: a fifth each way"
    ec2.fault("loss", one, "off")
    wait_for(lambda: _lost_of_100(ec2, two, one) == 0, "the loss to be gone")


def test_a_full_disk_takes_not_a_byte(ec2: EmulatedEc2) -> None:
    one, two = ec2.launch(2)
    ec2.fault("fill-disk", one)
    written = ec2.ssh(one, "head -c 100000 /dev/zero > ~/file")
    assert "No space left" in written.stderr
    assert ec2.ssh(two, "head -c 100000 /dev/zero > ~/file").returncode == 0
    ec2.fault("fill-disk", one, "off")
    assert ec2.ssh(one, "head -c 100000 /dev/zero > ~/file").returncode == 0


def test_a_spot_instance_is_told_and_then_taken_away(ec2: EmulatedEc2) -> None:
    (host,) = ec2.launch(InstanceMarketOptions={"MarketType": "spot"})
    assert ec2.ssh(host, f"{METADATA}/spot/instance-action").returncode == 22, "not found: no notice yet"
    ec2.fault("spot-notice", host, "600")
    told = json.loads(ec2.ssh(host, f"{METADATA}/spot/instance-action").stdout)
    assert told["action"] == "terminate"
    assert ec2.instance(host)["State"]["Name"] == "running"
    ec2.fault("spot-notice", host, "0")
    wait_for(lambda: ec2.instance(host)["State"]["Name"] == "terminated", "it to be taken away")
    assert ec2.instance(host)["StateReason"]["Code"] == "Server.SpotInstanceTermination"


def test_faults_that_make_no_sense_are_refused(ec2: EmulatedEc2) -> None:
    (host,) = ec2.launch()
    with pytest.raises(UserError, match="no spot instance"):
        ec2.fault("spot-notice", host)
    with pytest.raises(UserError, match="no fault 'slwo'"):
        ec2.fault("slwo", host)
    with pytest.raises(NotFoundError, match=r"No host is called '10\.0\.0\.9'"):
        ec2.fault("cut", "10.0.0.9")
    with pytest.raises(UserError, match="makes no sense"):
        ec2.fault("loss", host, "200")
    with pytest.raises(UserError, match="not a number"):
        ec2.fault("slow", host, "much")
    with pytest.raises(NotFoundError, match="Did you mean 'RunInstances'"):
        ec2.fault("throttle", "RunInstnces")
    with pytest.raises(NotFoundError, match="no service 'nosuch'"):
        ec2.fault("deny", "nosuch:Thing")


def test_the_metadata_service_knows_who_asks(ec2: EmulatedEc2) -> None:
    one, two = ec2.launch(2)
    for host in (one, two):
        assert ec2.ssh(host, f"{METADATA}/instance-id").stdout == ec2.instance(host)["InstanceId"]
        assert ec2.ssh(host, f"{METADATA}/placement/availability-zone").stdout == "us-east-1a"
        assert ec2.ssh(host, f"{METADATA}/instance-life-cycle").stdout == "on-demand"


def _sleeps(ec2: EmulatedEc2, host: str) -> set[str]:
    return set(ec2.ssh(host, "pgrep -a sleep | awk '{print $3}' | grep -v infinity").stdout.split())


def _pings(ec2: EmulatedEc2, source: str, target: str) -> bool:
    probe = f"import socket; socket.create_connection(('{target}', 22), 3)"
    return bool(ec2.ssh(source, f'python3 -c "{probe}"').returncode == 0)


def _lost_of_100(ec2: EmulatedEc2, source: str, target: str) -> int:
    """How many of a hundred datagrams do not come back."""
    return int(ec2.ssh(source, f'python3 -c "{PROBE}" {target}').stdout)


def _share(ec2: EmulatedEc2) -> float:
    """The share of a core that the only host takes, over a few seconds."""
    began, (before,) = time.monotonic(), ec2.hosts()
    time.sleep(2)
    (after,) = ec2.hosts()
    return float(after["cpu_used_s"] - before["cpu_used_s"]) / (time.monotonic() - began)
