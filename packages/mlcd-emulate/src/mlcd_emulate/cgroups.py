"""CPU and memory limits of hosts: control groups of version 1 and 2.

Groups are made below the caller's own as far as the kernel allows, so that an outer limit still holds; they are
found again by name anywhere in the tree, because whoever cleans up may live in another group.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from mlcd.errors import CloudError

ROOT = Path("/sys/fs/cgroup")
_PERIOD_US = 100_000  # shorter ones run throttled work cold
_HELD = 4.0  # weight against a process of this computer: other work takes little from a host that keeps to its share …
_FREE = 0.5  # … and a host that boots or loads takes little from other work
_ONE_V1 = 1024  # the weight of a process
_ONE_V2 = 100
_PATIENCE_S = 10.0


class Cgroups(Protocol):
    """The groups of one emulation, one for each host."""

    def make(self, host: str, memory_mib: int) -> None:
        """Make a host's group; its CPU is not limited yet."""

    def limit_cpu(self, host: str, cores: float | None) -> None:
        """Let the host have so many cores; None: as many as there are."""

    def is_limited(self, host: str) -> bool:
        """Whether the host's CPU is limited now."""

    def used_cpu_s(self, host: str) -> float:
        """The CPU seconds that the host has used."""

    def used_memory_mib(self, host: str) -> float:
        """The memory that the host takes now, with what it keeps of files."""

    def doors(self, host: str) -> list[Path]:
        """The files that a process writes its id to, to be in the group."""

    def processes(self, host: str) -> set[int]:
        """The host's processes, as this computer numbers them."""

    def remove(self, host: str) -> None:
        """Remove a group whose processes have ended."""


def open_cgroups(name: str, root: Path = ROOT, own: Path = Path("/proc/self/cgroup")) -> Cgroups:
    """The groups called so, in the version that this system limits CPU with."""
    belongs = _own_groups(own)
    if (root / "cpu").is_dir() and (root / "memory").is_dir():
        return CgroupsV1(name, {each: _v1_parent(root, each, belongs) for each in ("cpu", "cpuacct", "memory")})
    if (root / "cgroup.controllers").is_file():
        return CgroupsV2(name, _v2_parent(root, belongs.get("", "/")))
    raise CloudError(
        "This system has no control groups for CPU and memory.",
        "Mount them at /sys/fs/cgroup, as systemd does.",
    )


class CgroupsV1:
    """One tree for each controller."""

    def __init__(self, name: str, parents: dict[str, Path]) -> None:
        self._groups = {controller: parent / name for controller, parent in parents.items()}

    def make(self, host: str, memory_mib: int) -> None:
        for group in self._groups.values():
            (group / host).mkdir(parents=True, exist_ok=True)
        _write(self._groups["memory"] / host / "memory.limit_in_bytes", memory_mib << 20)
        self._weigh(host, _FREE)

    def limit_cpu(self, host: str, cores: float | None) -> None:
        group = self._groups["cpu"] / host
        _write(group / "cpu.cfs_period_us", _PERIOD_US)
        _write(group / "cpu.cfs_quota_us", -1 if cores is None else _quota_us(cores))
        self._weigh(host, _FREE if cores is None else _HELD)

    def _weigh(self, host: str, weight: float) -> None:
        """Let the host count for so many processes, and the emulation for as many as all its hosts."""
        group = self._groups["cpu"]
        _write(group / host / "cpu.shares", round(weight * _ONE_V1))
        _write(group / "cpu.shares", _sum_of(each / "cpu.shares" for each in groups_in(group)))

    def is_limited(self, host: str) -> bool:
        return int(_read(self._groups["cpu"] / host / "cpu.cfs_quota_us")) > 0

    def used_cpu_s(self, host: str) -> float:
        return int(_read(self._groups["cpuacct"] / host / "cpuacct.usage")) / 1e9

    def used_memory_mib(self, host: str) -> float:
        return int(_read(self._groups["memory"] / host / "memory.usage_in_bytes")) / 2**20

    def doors(self, host: str) -> list[Path]:
        return [group / host / "cgroup.procs" for group in self._groups.values()]

    def processes(self, host: str) -> set[int]:
        return _listed(self.doors(host)[0])

    def remove(self, host: str) -> None:
        for group in self._groups.values():
            remove_group(group / host)


class CgroupsV2:
    """One tree for all controllers."""

    def __init__(self, name: str, parent: Path) -> None:
        self._group = parent / name

    def make(self, host: str, memory_mib: int) -> None:
        self._group.mkdir(exist_ok=True)
        _write(self._group / "cgroup.subtree_control", "+cpu +memory")
        (self._group / host).mkdir(exist_ok=True)
        _write(self._group / host / "memory.max", memory_mib << 20)
        self._weigh(host, _FREE)

    def limit_cpu(self, host: str, cores: float | None) -> None:
        quota = "max" if cores is None else str(_quota_us(cores))
        _write(self._group / host / "cpu.max", f"{quota} {_PERIOD_US}")
        self._weigh(host, _FREE if cores is None else _HELD)

    def _weigh(self, host: str, weight: float) -> None:
        _write(self._group / host / "cpu.weight", round(weight * _ONE_V2))
        whole = _sum_of(each / "cpu.weight" for each in groups_in(self._group))
        _write(self._group / "cpu.weight", min(10_000, whole))

    def is_limited(self, host: str) -> bool:
        return not _read(self._group / host / "cpu.max").startswith("max")

    def used_cpu_s(self, host: str) -> float:
        stat = _read(self._group / host / "cpu.stat").split()
        return int(stat[stat.index("usage_usec") + 1]) / 1e6

    def used_memory_mib(self, host: str) -> float:
        return int(_read(self._group / host / "memory.current")) / 2**20

    def doors(self, host: str) -> list[Path]:
        return [self._group / host / "cgroup.procs"]

    def processes(self, host: str) -> set[int]:
        return _listed(self.doors(host)[0])

    def remove(self, host: str) -> None:
        remove_group(self._group / host)


def find_groups(name: str, root: Path = ROOT) -> Iterator[Path]:
    """Every group called so, wherever it was made; links to the same tree are not followed."""
    for folder, below, _ in os.walk(root):
        if name in below:
            yield Path(folder, name)


def groups_in(group: Path) -> Iterator[Path]:
    """The groups right below this one."""
    return (each for each in group.iterdir() if each.is_dir()) if group.is_dir() else iter(())


def processes_in(group: Path) -> set[int]:
    """The processes of a group and all below it."""
    found: set[int] = set()
    for folder, _, _ in os.walk(group):
        try:
            found |= _listed(Path(folder, "cgroup.procs"))
        except OSError:  # gone meanwhile
            continue
    return found


def _listed(door: Path) -> set[int]:
    return {int(pid) for pid in door.read_text().split()} if door.exists() else set()


def remove_group(group: Path) -> None:
    """Remove a group and those below; the kernel takes a moment to let go of one whose processes have ended."""
    for below in groups_in(group):
        remove_group(below)
    patience = time.monotonic() + _PATIENCE_S
    while group.is_dir():
        try:
            group.rmdir()
        except OSError as error:
            if time.monotonic() > patience:
                raise CloudError(f"The control group {group} cannot be removed: {error}") from error
            time.sleep(0.02)


def _own_groups(own: Path) -> dict[str, str]:
    """Controller → the path of the group that this process is in; '' is version 2."""
    fields = (line.split(":", 2) for line in own.read_text().splitlines())
    return {controller: path for _, controllers, path in fields for controller in controllers.split(",")}


def _v1_parent(root: Path, controller: str, belongs: dict[str, str]) -> Path:
    inner = root / controller / belongs.get(controller, "/").lstrip("/")
    return inner if inner.is_dir() else root / controller  # another view of the tree: a container's


def _v2_parent(root: Path, path: str) -> Path:
    """The nearest group upwards that may hand CPU and memory on: one with processes of its own may not."""
    nearest = root / path.lstrip("/")
    for group in (nearest, *nearest.parents):
        if group.is_relative_to(root) and _hands_on(group):
            return group
    raise CloudError("No control group here may limit CPU and memory.", "Run outside the container, or as its init.")


def _hands_on(group: Path) -> bool:
    control = group / "cgroup.subtree_control"
    try:
        if not {"cpu", "memory"} <= set(control.read_text().split()):
            control.write_text("+cpu +memory")
    except OSError:
        return False
    return True


def _sum_of(files: Iterable[Path]) -> int:
    """What these say together; a group may vanish meanwhile."""
    total = 0
    for file in files:
        with suppress(OSError):
            total += int(file.read_text())
    return total


def _quota_us(cores: float) -> int:
    return max(1000, round(cores * _PERIOD_US))


def _read(file: Path) -> str:
    """What a small file says, in three calls of the system: each is a chance to wait for another thread."""
    handle = os.open(file, os.O_RDONLY)
    try:
        return os.read(handle, 4096).decode()
    finally:
        os.close(handle)


def _write(file: Path, value: object) -> None:
    file.write_text(str(value))


def all_processes_in(groups: Iterable[Path]) -> set[int]:
    """The processes of several groups."""
    return {pid for group in groups for pid in processes_in(group)}
