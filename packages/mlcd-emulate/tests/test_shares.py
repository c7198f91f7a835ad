"""Hosts are held to their shares at once, however busy this computer and the emulation are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from emulated import EmulatedEc2, wait_for
from mlcd.errors import CloudError
from mlcd_emulate.cgroups import CgroupsV2
from mlcd_emulate.shares import LimitedHost, Shares

pytestmark = pytest.mark.slow
ASKING = """
import os, sys, urllib.request
os.nice(19)  # whoever is asked is to be busy, not this computer
while True:
    urllib.request.urlopen(sys.argv[1]).read()
"""


def test_a_host_is_held_to_its_share_while_the_api_is_asked_without_pause(ec2: EmulatedEc2) -> None:
    """Nothing but its credit comes on top: what a program loads with, and 0.15 seconds."""
    (host,) = ec2.launch(instance_type="c5.large")
    line = (sys.executable, "-c", ASKING, f"{ec2.state.endpoint}/moto-api/data.json")
    asking = [subprocess.Popen(line) for _ in range(6)]
    try:
        wait_for(lambda: ec2.hosts()[0]["cpu_limited"] or _load(ec2, host), "the host to be held")
        before, began = ec2.hosts()[0]["cpu_used_s"], time.monotonic()
        ec2.ssh(host, "setsid sh -c 'while :; do :; done' >/dev/null 2>&1 </dev/null &")
        time.sleep(6)
        (after,) = ec2.hosts()
        share = after["cores"] * (time.monotonic() - began)
        assert after["cpu_used_s"] - before < share + 1.0
    finally:
        for each in asking:
            each.kill()
            each.wait()


def _load(ec2: EmulatedEc2, host: str) -> bool:
    """Use up the credit that the boot has left."""
    ec2.ssh(host, "timeout 1 sh -c 'while :; do :; done'")
    return False


def test_a_host_is_refused_but_may_go_when_nobody_holds_it_to_its_share() -> None:
    shares = Shares("nobody's")
    shares._process.kill()
    shares._process.wait()
    with pytest.raises(CloudError, match="shares"):
        shares.hold("i-1", 0.1)
    shares.forget("i-1")
    shares.close()


def test_a_program_that_begins_is_told_from_what_it_starts_itself(tmp_path: Path) -> None:
    procs = tmp_path / "lab" / "i-1" / "cgroup.procs"
    procs.parent.mkdir(parents=True)
    host = LimitedHost("i-1", CgroupsV2("lab", tmp_path), cores=0.1)
    line = ["bash", "-c", "sleep 60 & echo $!; wait"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, start_new_session=True) as program:
        assert program.stdout is not None
        child = program.stdout.readline().strip()
        try:
            procs.write_text(f"{program.pid}\n")
            assert host.session_begun()
            procs.write_text(f"{program.pid}\n{child}\n")
            assert not host.session_begun()
        finally:
            os.killpg(program.pid, signal.SIGKILL)
