"""Limits are written where each version of control groups wants them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlcd.errors import CloudError
from mlcd_emulate.cgroups import CgroupsV1, CgroupsV2, find_groups, open_cgroups, processes_in, remove_group


def v1_tree(root: Path) -> Path:
    for controller in ("cpu", "cpuacct", "memory"):
        (root / controller / "outer").mkdir(parents=True)
    own = root / "self"
    own.write_text("3:memory:/outer\n2:cpuacct:/\n1:cpu:/elsewhere\n0::/\n")
    return own


def v2_tree(root: Path, own_path: str) -> Path:
    (root / own_path.lstrip("/")).mkdir(parents=True, exist_ok=True)
    (root / "cgroup.controllers").write_text("cpu memory")
    for group in (root, *(each for each in root.rglob("*") if each.is_dir())):
        (group / "cgroup.subtree_control").write_text("")
    own = root / "own-group"
    own.write_text(f"0::{own_path}\n")
    return own


def test_version_1_keeps_below_the_outer_limit(tmp_path: Path) -> None:
    groups = open_cgroups("lab", tmp_path, v1_tree(tmp_path))
    assert isinstance(groups, CgroupsV1)
    groups.make("i-1", memory_mib=512)
    groups.limit_cpu("i-1", 0.1)
    memory = tmp_path / "memory" / "outer" / "lab" / "i-1"
    assert (memory / "memory.limit_in_bytes").read_text() == str(512 << 20)
    cpu = tmp_path / "cpu" / "lab" / "i-1"  # a group that is not there: another view of the tree
    assert ((cpu / "cpu.cfs_quota_us").read_text(), (cpu / "cpu.cfs_period_us").read_text()) == (
        "10000",
        "100000",
    )
    assert int((cpu / "cpu.shares").read_text()) > 1024  # other work shall not take from its share
    groups.limit_cpu("i-1", None)
    assert (cpu / "cpu.cfs_quota_us").read_text() == "-1"
    assert int((cpu.parent / "cpu.shares").read_text()) < 1024
    (tmp_path / "cpuacct" / "lab" / "i-1" / "cpuacct.usage").write_text("2500000000\n")
    assert groups.used_cpu_s("i-1") == 2.5
    (memory / "memory.usage_in_bytes").write_text(f"{3 << 20}\n")
    assert groups.used_memory_mib("i-1") == 3


def test_version_2_writes_the_same_limits(tmp_path: Path) -> None:
    groups = open_cgroups("lab", tmp_path, v2_tree(tmp_path, "/user/session"))
    assert isinstance(groups, CgroupsV2)
    groups.make("i-1", memory_mib=512)
    groups.limit_cpu("i-1", 0.1)
    (group,) = find_groups("lab", tmp_path)
    host = group / "i-1"
    assert (host / "memory.max").read_text() == str(512 << 20)
    assert (host / "cpu.max").read_text() == "10000 100000"
    groups.make("i-2", memory_mib=512)
    weights = [int((each / "cpu.weight").read_text()) for each in (host, group / "i-2", group)]
    assert weights[0] > 100 > weights[1]
    assert weights[2] == weights[0] + weights[1]
    groups.limit_cpu("i-1", None)
    assert (host / "cpu.max").read_text() == "max 100000"
    (host / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1\n")
    assert groups.used_cpu_s("i-1") == 1.5
    (host / "memory.current").write_text(f"{3 << 20}\n")
    assert groups.used_memory_mib("i-1") == 3
    assert groups.doors("i-1") == [host / "cgroup.procs"]


def test_version_2_takes_the_nearest_group_that_may_hand_limits_on(tmp_path: Path) -> None:
    own = v2_tree(tmp_path, "/user/session")
    busy = tmp_path / "user" / "session" / "cgroup.subtree_control"
    busy.unlink()  # as where a group has processes of its own: no write there succeeds
    busy.mkdir()
    open_cgroups("lab", tmp_path, own).make("i-1", memory_mib=512)
    assert (tmp_path / "user" / "lab" / "i-1").is_dir()


def test_a_system_without_control_groups_is_told(tmp_path: Path) -> None:
    (tmp_path / "self").write_text("0::/\n")
    with pytest.raises(CloudError, match="no control groups"):
        open_cgroups("lab", tmp_path, tmp_path / "self")


def test_groups_are_found_by_name_with_their_processes(tmp_path: Path) -> None:
    host = tmp_path / "memory" / "deep" / "lab" / "i-1"
    host.mkdir(parents=True)
    (host / "cgroup.procs").write_text("11\n12\n")
    (group,) = find_groups("lab", tmp_path)
    assert processes_in(group) == {11, 12}
    (host / "cgroup.procs").unlink()
    remove_group(group)
    assert not group.exists()
