"""The parameter store: how parcels get from one worker to others that it cannot reach.

A parcel is a piece of some round, addressed by its sender, its kind and its number:

    PIECE     for one worker: a part of the sender's gradient, to be aggregated by the receiver
    RESULT    for all workers: what the sender has aggregated, or wants everybody to have

Numbers rise from parcel to parcel of the same kind. Nobody sends number x before it has everything of number x − WINDOW
from everybody; so when a worker sends number x, everybody has read what it sent as x − 2 × WINDOW, and a store keeps the
last 2 × WINDOW numbers only. That bounds its memory whatever the size of the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mlcd.errors import UserError
from mlcd.sync.errors import SyncError
from mlcd.sync.timing import StepTimes

Bytes = npt.NDArray[np.uint8]

PIECE = 0
RESULT = 1
WINDOW = 5
SLOTS = 2 * WINDOW
CACHE_LINE_BYTES = 64  # bytes of a cache line
ROUND_BYTES = 4 << 20  # of one worker in one round, at best
STORE_BYTES = 512 << 20  # parcels in one store, at most


@dataclass(frozen=True)
class Member:
    """A worker's place in its group."""

    rank: int
    world_size: int
    generation: int = 0
    name: str = "sync"  # of the group; several may use one store
    task: str = ""  # whose groups these are, where several tasks share servers
    position: int = 0  # the first number that this worker sends and receives


class Timeout(Protocol):
    """The timeout of one wait; the store calls `check` every `interval_s` seconds with the ranks that are missing."""

    interval_s: float

    def check(self, missing: Sequence[int]) -> None:
        """Raise SyncTimeout when it has been too long."""


class Buffers(Protocol):
    """Memory that all workers share."""

    def allocate(self, size: int) -> Bytes:
        """So many bytes of it."""

    def holds(self, array: npt.NDArray[Any]) -> bool:
        """Whether the array lies in it."""

    def of_all(self, array: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """The same array of every worker, in the order of ranks."""


class ParameterStore(Protocol):
    """Carries parcels from worker to worker."""

    parcel_bytes: int  # the largest parcel

    @property
    def buffers(self) -> Buffers | None:
        """Memory that all workers share, where the store has some."""

    @property
    def times(self) -> StepTimes | None:
        """How long parcels were under way, where they travel while the worker does something else."""

    def send(self, number: int, pieces: Mapping[int, Bytes]) -> None:
        """Send a PIECE to each of these workers. Do not change the arrays before `flush`."""

    def publish(self, number: int, result: Bytes) -> None:
        """Send a RESULT to all other workers. Do not change the array before `flush`."""

    def flush(self) -> None:
        """Return when the store has taken all that was sent: the arrays may be reused."""

    def expect(self, kind: int, number: int, sources: Sequence[int], into: Sequence[Bytes]) -> None:
        """Announce which parcels will be received, and into which arrays, so that the store can fetch them early."""

    def receive(
        self, kind: int, number: int, sources: Sequence[int], into: Sequence[Bytes], timeout: Timeout
    ) -> Iterator[Bytes]:
        """The parcels of the sources in their order, each valid until the next is asked for.

        They may lie in `into`, or in the store's own memory; a copy is made only where there is no way around it.
        """

    def post(self, notice: str, seconds: float) -> None:
        """Show all workers a short notice of this one for some seconds; it replaces the last one."""

    def notices(self) -> dict[int, str]:
        """The notices that have not expired, by rank."""

    def newest_generation(self) -> int:
        """The newest that any worker has joined."""

    def close(self, orderly: bool) -> None:
        """Disconnect; after an orderly end also remove what this worker has left in the store."""


def open_store(url: str, member: Member) -> ParameterStore:
    """The store of a URL, on behalf of one worker."""
    scheme = url.partition("://")[0]
    if scheme in ("redis", "rediss", "valkey"):
        from mlcd.sync.valkey.store import ValkeyStore

        return ValkeyStore(url, member)
    if scheme == "shm":
        from mlcd.sync.shm.store import SharedMemoryStore

        return SharedMemoryStore(url.partition("://")[2], member)
    raise UserError(
        f"Unknown parameter store '{scheme}'.",
        "Use redis://HOST:PORT, rediss://HOST:PORT or shm://NAME.",
    )


def largest_parcel(world_size: int, servers: int = 1) -> int:
    """Bytes of the largest parcel: large enough to be few, and so that a store never holds more than STORE_BYTES."""
    most = servers * STORE_BYTES // (SLOTS * world_size * world_size)
    return round_up_to_cache_lines(max(4096, min(ROUND_BYTES // world_size, most)))


def already_joined(rank: int, generation: int) -> SyncError:
    """The error of a worker whose rank has joined this generation before."""
    return SyncError(
        f"Rank {rank} has joined generation {generation} before.",
        "Let all workers join the next generation (MLCD_SYNC_GENERATION).",
    )


def as_bytes(array: npt.NDArray[Any]) -> Bytes:
    """The same memory, byte by byte."""
    return array.view(np.uint8)


def round_up_to_cache_lines(size: int) -> int:
    """The size rounded up to whole cache lines."""
    return -(-size // CACHE_LINE_BYTES) * CACHE_LINE_BYTES
