"""Removes an emulation by its names on the system, whoever made it and however that ended."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from mlcd.errors import CloudError, UserError
from mlcd_emulate.cgroups import all_processes_in, find_groups, remove_group
from mlcd_emulate.network import namespaces_of
from mlcd_emulate.place import Place
from mlcd_emulate.system import kill_quietly, run_tool, try_tool

MODULE = "mlcd_emulate.process"
_POLITE_S = 15.0
_FIRM_S = 20.0


@dataclass(frozen=True)
class Removed:
    """What was found and is gone."""

    supervisors: int
    processes: int
    namespaces: int
    cgroups: int


def remove_emulation(place: Place) -> Removed:
    """End the supervisor, kill what lives on, and remove every trace; quiet where there is none."""
    supervisors = _end_supervisors(place)
    return replace(remove_traces(place), supervisors=supervisors)


def remove_traces(place: Place) -> Removed:
    """Remove what an emulation made, its supervisor apart."""
    groups = list(find_groups(place.cgroup))
    processes = _end_processes(place, groups)
    namespaces = namespaces_of(place)
    for namespace in namespaces:
        try_tool("ip", "netns", "del", namespace)
    try_tool("ip", "link", "del", place.link)
    for group in groups:
        remove_group(group)
    shutil.rmtree(place.folder, ignore_errors=True)
    return Removed(0, processes, len(namespaces), len(groups))


def is_running(place: Place) -> bool:
    """Whether a supervisor of this emulation lives."""
    return bool(_supervisors(place))


def refuse_another_home(place: Place) -> None:
    """Refuse a name under which another home's emulation runs: by their names its hosts would be taken for ours."""
    for pid, words in _supervisors_named(place.name):
        folder = Path(words[words.index("--folder") + 1])
        if folder != place.folder:
            raise UserError(
                f"An emulated EC2 called '{place.name}' runs already, from {folder} (process {pid}).",
                "Take another --name, or the MLCD_HOME that it was started with.",
            )


def _end_supervisors(place: Place) -> int:
    """Let the supervisors clean up by themselves; kill those that do not."""
    found = _supervisors(place)
    kill_quietly(found, signal.SIGTERM)
    _wait_for(lambda: not _supervisors(place), _POLITE_S)
    kill_quietly(_supervisors(place))
    if not _wait_for(lambda: not _supervisors(place), _FIRM_S):
        raise CloudError(f"The supervisor of '{place.name}' does not end: {sorted(_supervisors(place))}")
    return len(found)


def _end_processes(place: Place, groups: list[Path]) -> int:
    """Kill every process in the emulation's control groups and network namespaces."""
    killed: set[int] = set()

    def none_left() -> bool:
        left = (all_processes_in(groups) | _in_namespaces(place)) - {os.getpid()}
        kill_quietly(left)
        killed.update(left)
        return not left

    if not _wait_for(none_left, _FIRM_S):
        raise CloudError(f"Processes of the emulation '{place.name}' do not end.")
    return len(killed)


def _supervisors(place: Place) -> set[int]:
    """The processes that were started as this emulation's supervisor, by their command line."""
    return {pid for pid, words in _supervisors_named(place.name) if str(place.folder) in words}


def _supervisors_named(name: str) -> list[tuple[int, list[str]]]:
    """Supervisors of emulations by this name, from whichever home, with their command lines."""
    numbers = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    lines = [(int(entry.name), _command_line(entry)) for entry in numbers if entry.name != str(os.getpid())]
    return [(pid, words) for pid, words in lines if MODULE in words and _follows(words, "--name", name)]


def _follows(words: list[str], option: str, value: str) -> bool:
    return (option, value) in pairwise(words)


def _command_line(process: Path) -> list[str]:
    """The words that a process was started with; one that has ended has none, though its parent may not know yet."""
    try:
        return (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


def _in_namespaces(place: Place) -> set[int]:
    listed = (run_tool("ip", "netns", "pids", each) for each in namespaces_of(place))
    return {int(pid) for text in listed for pid in text.split()}


def _wait_for(condition: Callable[[], bool], patience_s: float) -> bool:
    """Whether it came true in time."""
    until = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True
