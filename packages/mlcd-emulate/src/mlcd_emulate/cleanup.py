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
from mlcd_emulate.emulation import Emulation
from mlcd_emulate.network import namespaces_of
from mlcd_emulate.system import kill_quietly, run_tool, try_tool

MODULE = "mlcd_emulate.process"
_POLITE_S = 15.0
_FIRM_S = 20.0


@dataclass(frozen=True)
class CleanupResult:
    """What was found and is gone."""

    main_processes: int
    processes: int
    namespaces: int
    cgroups: int


def remove_emulation(emulation: Emulation) -> CleanupResult:
    """End its main process, kill what is left, and remove every trace; quiet where there is none."""
    ended = _end_main_processes(emulation)  # first: it makes and ends hosts while it lives
    return replace(remove_traces(emulation), main_processes=ended)


def remove_traces(emulation: Emulation) -> CleanupResult:
    """Remove all that an emulation made, except its main process."""
    groups = list(find_groups(emulation.cgroup))
    processes = _end_processes(emulation, groups)
    namespaces = namespaces_of(emulation)
    for namespace in namespaces:
        try_tool("ip", "netns", "del", namespace)
    try_tool("ip", "link", "del", emulation.link)
    for group in groups:
        remove_group(group)
    shutil.rmtree(emulation.folder, ignore_errors=True)
    return CleanupResult(0, processes, len(namespaces), len(groups))


def is_running(emulation: Emulation) -> bool:
    """Whether the main process of this emulation lives."""
    return bool(_main_processes(emulation))


def refuse_another_home(emulation: Emulation) -> None:
    """Refuse a name under which another home's emulation runs: by their names its hosts would be taken for ours."""
    for pid, words in _main_processes_named(emulation.name):
        folder = Path(words[words.index("--folder") + 1])
        if folder != emulation.folder:
            raise UserError(
                f"An emulated EC2 called '{emulation.name}' runs already, from {folder} (process {pid}).",
                "Take another --name, or the MLCD_HOME that it was started with.",
            )


def _end_main_processes(emulation: Emulation) -> int:
    """Let the main process clean up by itself; kill it where it does not."""
    found = _main_processes(emulation)
    kill_quietly(found, signal.SIGTERM)
    _wait_for(lambda: not _main_processes(emulation), _POLITE_S)
    kill_quietly(_main_processes(emulation))
    if not _wait_for(lambda: not _main_processes(emulation), _FIRM_S):
        raise CloudError(f"The main process of '{emulation.name}' does not end: {sorted(_main_processes(emulation))}")
    return len(found)


def _end_processes(emulation: Emulation, groups: list[Path]) -> int:
    """Kill every process in the emulation's control groups and network namespaces."""
    killed: set[int] = set()

    def none_left() -> bool:
        left = (all_processes_in(groups) | _in_namespaces(emulation)) - {os.getpid()}
        kill_quietly(left)
        killed.update(left)
        return not left

    if not _wait_for(none_left, _FIRM_S):
        raise CloudError(f"Processes of the emulation '{emulation.name}' do not end.")
    return len(killed)


def _main_processes(emulation: Emulation) -> set[int]:
    """The processes that were started as this emulation, by their command line."""
    return {pid for pid, words in _main_processes_named(emulation.name) if str(emulation.folder) in words}


def _main_processes_named(name: str) -> list[tuple[int, list[str]]]:
    """Main processes of emulations of this name, from any home, with their command lines."""
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


def _in_namespaces(emulation: Emulation) -> set[int]:
    listed = (run_tool("ip", "netns", "pids", each) for each in namespaces_of(emulation))
    return {int(pid) for text in listed for pid in text.split()}


def _wait_for(condition: Callable[[], bool], patience_s: float) -> bool:
    """Whether it came true in time."""
    until = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True
