"""One machine of a task, as its runner sees it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from emulated import wait_for
from mlcd.clouds.remote import node
from mlcd.clouds.remote.base import CommandResult, Machine, UnreachableError
from mlcd.clouds.remote.lease import Lease
from mlcd.clouds.remote.node import RemoteNode
from mlcd.core.task import TaskFolder
from mlcd.errors import CloudError, UserError


class ClosedDoor:
    """A machine that never answers."""

    base = "/mlcd"

    def run(self, command: str, stdin: bytes = b"", seconds: float = 60.0) -> CommandResult:
        raise UnreachableError("m-1 does not answer: connection timed out")

    def close(self) -> None:
        """Nothing was open."""


def node_behind(door: Any, folder: Path, control: str = "") -> RemoteNode:
    """The first node of a task, on a machine behind this door."""
    machine = Machine("m-1", "10.0.0.1", "10.0.0.1", 0.0)
    return RemoteNode(0, machine, door, Lease(door, control, 600.0), "task-1", control, TaskFolder(folder))


def test_a_machine_that_never_answers_is_given_up_with_its_last_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(node, "REACH_SECONDS", 0.0)
    away = node_behind(ClosedDoor(), tmp_path)
    asked: list[bool] = []
    with pytest.raises(CloudError, match=r"m-1 never answered: .*connection timed out") as caught:
        away.wait_until_reachable(lambda: asked.append(True))
    assert not isinstance(caught.value, UnreachableError)
    assert asked  # whoever waits may have been told to stop


class Booting(ClosedDoor):
    """A machine that lets in before its boot script has run, and has our folder when it is asked the third time."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked = folder, 0

    def run(self, command: str, stdin: bytes = b"", seconds: float = 60.0) -> CommandResult:
        self.asked += 1
        if self.asked == 3:
            self.folder.mkdir()
        return CommandResult(subprocess.run(["bash", "-c", command], check=False).returncode, "")


def test_a_machine_that_lets_in_before_it_has_booted_is_waited_for(tmp_path: Path) -> None:
    booting = Booting(tmp_path / "run")
    booted = node_behind(booting, tmp_path, control=str(tmp_path / "run"))
    booted.wait_until_reachable(lambda: None)
    assert booting.asked == 3
    booted.lease.close()


class NoDisplay(ClosedDoor):
    """A machine whose commands fail without a word."""

    def run(self, command: str, stdin: bytes = b"", seconds: float = 60.0) -> CommandResult:
        return CommandResult(137, "")


def test_a_command_that_fails_without_a_word_is_told_with_its_code(tmp_path: Path) -> None:
    with pytest.raises(CloudError, match="could not start mlcd's agent: exit code 137"):
        node_behind(NoDisplay(), tmp_path).start({}, "python3")


class Unreadable(ClosedDoor):
    """A machine that cannot be asked the first time: a file of this computer's is away, say."""

    def __init__(self) -> None:
        self.asked = 0

    def read(self, path: str, offset: int = 0, most: int = 4 << 20) -> bytes | None:
        self.asked += 1
        if self.asked == 1:
            raise UserError("There is no 'kubectl' on this computer.")
        return b'{"phase": "running", "beat": 1.0, "why": "", "codes": [null], "ended_at": null}'


def test_a_node_is_listened_to_again_whatever_kept_us_from_it(tmp_path: Path) -> None:
    heard = node_behind(Unreadable(), tmp_path)
    heard.listen()
    wait_for(lambda: heard.agent, "its agent's words")
    heard.close()
