"""Cores and GPUs in use: a lock file each, so that whatever dies gives back what it had."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from mlcd.core.machines import Deployment

T = TypeVar("T")

WAIT_SECONDS = 0.1


@dataclass(frozen=True)
class Taken:
    """What a task got, for as long as its runner lives."""

    cores: tuple[int, ...]
    gpus: tuple[str, ...]


def cores_by_rank(deployment: Deployment) -> list[int]:
    """How many cores each node has."""
    return [max(1, int(deployment.offer_of(rank).instance.vcpus)) for rank in range(deployment.nodes)]


def gpus_by_rank(deployment: Deployment) -> list[int]:
    """How many GPUs each node has."""
    return [deployment.offer_of(rank).instance.gpus for rank in range(deployment.nodes)]


def share(things: Sequence[T], counts: Sequence[int], rank: int) -> Sequence[T]:
    """The part of the things that falls to the node of that rank, where each has so many."""
    first = sum(counts[:rank])
    return things[first : first + counts[rank]]


class Places:
    """The cores and GPUs that this runner holds."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._held: list[int] = []

    def take(
        self, wait: Callable[[float], None], cores: int, of_cores: int, gpus: int, of_gpus: Sequence[str]
    ) -> Taken:
        """Wait until that many are free and hold them; one taker collects at a time, so that none starve."""
        self._home.mkdir(parents=True, exist_ok=True)
        turn = self._wait_for("turn", wait)
        try:
            core_names = self._collect([f"core-{core}" for core in range(of_cores)], cores, wait)
            gpu_names = self._collect([f"gpu-{gpu}" for gpu in of_gpus], gpus, wait)
        finally:
            os.close(turn)
        return Taken(
            tuple(int(name.removeprefix("core-")) for name in core_names),
            tuple(name.removeprefix("gpu-") for name in gpu_names),
        )

    def release(self) -> None:
        """Give everything back."""
        while self._held:
            os.close(self._held.pop())

    def _collect(self, names: list[str], count: int, wait: Callable[[float], None]) -> list[str]:
        taken: list[str] = []
        while len(taken) < count:
            for name in names:
                held = self._try(name) if name not in taken and len(taken) < count else None
                if held is not None:
                    self._held.append(held)
                    taken.append(name)
            if len(taken) < count:
                wait(WAIT_SECONDS)
        return sorted(taken, key=names.index)

    def _wait_for(self, name: str, wait: Callable[[float], None]) -> int:
        while (held := self._try(name)) is None:
            wait(WAIT_SECONDS)
        return held

    def _try(self, name: str) -> int | None:
        file = os.open(self._home / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return None
        return file
