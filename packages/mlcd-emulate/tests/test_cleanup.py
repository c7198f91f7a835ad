"""Whatever an emulation made is gone after `down`, however it ended."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import astuple
from pathlib import Path

import pytest

from emulated import EmulatedEc2, emulated_ec2, wait_for
from mlcd.errors import NotFoundError, UserError
from mlcd_emulate.cgroups import find_groups
from mlcd_emulate.cleanup import is_running
from mlcd_emulate.client import EmulationOptions, down, status, up
from mlcd_emulate.emulation import Emulation, emulation_named
from mlcd_emulate.network import namespaces_of

pytestmark = pytest.mark.slow


def traces(emulation: Emulation) -> dict[str, list[str]]:
    """All that is left of an emulation on the system."""
    return {
        "namespaces": namespaces_of(emulation),
        "links": [each.name for each in Path("/sys/class/net").iterdir() if each.name == emulation.link],
        "cgroups": [str(each) for each in find_groups(emulation.cgroup)],
        "mounts": [line for line in Path("/proc/mounts").read_text().splitlines() if emulation.name in line],
        "processes": _processes_naming(emulation.name),
        "files": [str(each) for each in emulation.folder.parent.glob("*")],
    }


def test_down_leaves_nothing_after_the_main_process_was_killed(ec2: EmulatedEc2, tmp_path: Path) -> None:
    with emulated_ec2(tmp_path) as doomed:
        assert doomed.state.network != ec2.state.network, "two run side by side"
        (host,) = doomed.launch(UserData="#!/bin/sh\nexec sleep 3333\n")
        doomed.fault("loss", host, "5")
        _kill_main_process(doomed)
        with pytest.raises(NotFoundError, match="was killed"):
            status(doomed.emulation)
        assert traces(doomed.emulation)["namespaces"], "there is something to clean up"
        assert down(doomed.emulation).processes
        assert not any(traces(doomed.emulation).values()), traces(doomed.emulation)
        assert not any(astuple(down(doomed.emulation))), "twice is quiet"
        assert status(ec2.emulation)["hosts"] == [], "the other one goes on"


def test_up_starts_afresh_after_a_kill_and_down_needs_no_state_file(tmp_path: Path) -> None:
    with emulated_ec2(tmp_path) as ec2:
        ec2.launch()
        _kill_main_process(ec2)
        again = up(ec2.emulation, EmulationOptions())
        assert again.pid != ec2.state.pid
        assert status(ec2.emulation)["hosts"] == []
        assert up(ec2.emulation, EmulationOptions()) == again, "twice starts once"
        ec2.emulation.state_file.unlink()
        down(ec2.emulation)
        assert not any(traces(ec2.emulation).values()), traces(ec2.emulation)


def test_the_same_name_from_another_home_is_refused_and_ends_nothing(ec2: EmulatedEc2, tmp_path: Path) -> None:
    (host,) = ec2.launch()
    elsewhere = emulation_named(ec2.emulation.name, tmp_path / "another")
    with pytest.raises(UserError, match=f"runs already, from {ec2.emulation.folder}"):
        up(elsewhere, EmulationOptions())
    with pytest.raises(UserError, match="runs already"):
        down(elsewhere)
    assert ec2.ssh(host, "echo here").stdout.strip() == "here"
    assert not elsewhere.folder.exists()


def test_an_emulation_does_not_outlive_its_owner(tmp_path: Path) -> None:
    with subprocess.Popen(("sleep", "600")) as owner, emulated_ec2(tmp_path, owner=owner.pid) as ec2:
        ec2.launch()
        owner.kill()
        owner.wait()
        wait_for(lambda: not any(traces(ec2.emulation).values()), "everything to be gone")


def _kill_main_process(ec2: EmulatedEc2) -> None:
    os.kill(ec2.state.pid, signal.SIGKILL)
    wait_for(lambda: not is_running(ec2.emulation), "the reconciler to be dead")


def _processes_naming(name: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if name in line:
            found.append(line)
    return found
