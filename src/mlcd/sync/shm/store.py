"""The parameter store in shared memory, when all workers are on one machine.

/dev/shm/mlcd-<url name>/<group name>/ has one segment per generation (see mlcd.sync.shm.segment), and one socket per worker.

A parcel is copied into its slot, then its counter rises. The receiver reads it where it lies: of the paper's four steps
only the uploads and the last download copy. A worker that waits sleeps on its socket; senders wake
those that are marked as asleep.
"""

from __future__ import annotations

import contextlib
import re
import select
import shutil
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mlcd.errors import UserError
from mlcd.sync.errors import StaleWorker
from mlcd.sync.shm.buffers import SharedBuffers
from mlcd.sync.shm.segment import NOTICE_BYTES, Segment
from mlcd.sync.store import PIECE, SLOTS, Bytes, Member, Timeout, already_joined, largest_parcel
from mlcd.sync.timing import StepTimes

_SHARED = Path("/dev/shm")  # noqa: S108  # shared memory with a name is what this is about
_NOTICE = struct.Struct("<dI")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,40}")

_OF_GENERATION = re.compile(r"(?:buffer-|wake-)?(\d+)")  # how the names of a generation's files begin

Counters = npt.NDArray[np.uint64]


class SharedMemoryStore:
    """Parcels in slots of shared memory, flags as counters."""

    times: StepTimes | None = None

    def __init__(self, url_name: str, member: Member) -> None:
        self._rank, self._world_size = member.rank, member.world_size
        self.parcel_bytes = largest_parcel(member.world_size)
        self._folder = _folder(url_name) / member.name
        self._generation = member.generation
        self._fence_lock = threading.Lock()
        self._fence_lock.acquire()
        self._enter()
        self._segment = Segment(self._folder / f"{member.generation}", member.world_size, self.parcel_bytes)
        if not member.position and (self._segment.sent[self._rank].any() or self._segment.published[self._rank]):
            raise already_joined(self._rank, member.generation)
        self.buffers: SharedBuffers = SharedBuffers(self._folder, member)
        self._socket = self._listen()

    def send(self, number: int, pieces: Mapping[int, Bytes]) -> None:
        segment, slot = self._segment, number % SLOTS
        for receiver, piece in pieces.items():
            segment.pieces[self._rank, slot, receiver, : piece.nbytes] = piece
            self._fence()
            segment.sent[self._rank, receiver] = number + 1
        self._wake(pieces)

    def publish(self, number: int, result: Bytes) -> None:
        segment = self._segment
        segment.results[self._rank, number % SLOTS, : result.nbytes] = result
        self._fence()
        segment.published[self._rank] = number + 1
        self._wake(range(self._world_size))

    def flush(self) -> None:
        """A parcel is copied as it is offered."""

    def expect(self, kind: int, number: int, sources: Sequence[int], into: Sequence[Bytes]) -> None:
        """It lies in shared memory, and is read there."""

    def receive(
        self, kind: int, number: int, sources: Sequence[int], into: Sequence[Bytes], timeout: Timeout
    ) -> Iterator[Bytes]:
        segment, slot = self._segment, number % SLOTS
        counters = segment.sent[:, self._rank] if kind == PIECE else segment.published
        for index, (source, place) in enumerate(zip(sources, into, strict=True)):
            if counters[source] <= number:
                self._await(counters, number, sources[index:], timeout)
            if kind == PIECE:
                yield segment.pieces[source, slot, self._rank, : place.nbytes]
            else:
                place[:] = segment.results[source, slot, : place.nbytes]
                yield place

    def post(self, notice: str, seconds: float) -> None:
        raw = notice.encode()[: NOTICE_BYTES - _NOTICE.size]
        packed = _NOTICE.pack(time.monotonic() + seconds, len(raw)) + raw
        self._segment.notices[self._rank, : len(packed)] = np.frombuffer(packed, dtype=np.uint8)

    def notices(self) -> dict[int, str]:
        found = {}
        for rank in range(self._world_size):
            until, size = _NOTICE.unpack_from(self._segment.notices[rank])
            if until > time.monotonic():
                text = self._segment.notices[rank, _NOTICE.size : _NOTICE.size + size]
                found[rank] = text.tobytes().decode(errors="replace")
        return found

    def newest_generation(self) -> int:
        return max((int(path.name) for path in self._folder.glob("*") if path.name.isdigit()), default=0)

    def close(self, orderly: bool) -> None:
        self._socket.close()
        self._wake_path(self._rank).unlink(missing_ok=True)
        self.buffers.remove()
        if orderly and not any(self._folder.glob(f"wake-{self._generation}-*")):
            (self._folder / f"{self._generation}").unlink(missing_ok=True)

    def _enter(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        newest = self.newest_generation()
        if newest > self._generation:
            raise StaleWorker(f"Generation {newest} has begun; this worker is of {self._generation}.")
        for path in self._folder.iterdir() if self._rank == 0 else ():
            found = _OF_GENERATION.match(path.name)
            if found and int(found[1]) < self._generation:
                path.unlink(missing_ok=True)

    def _listen(self) -> socket.socket:
        path = self._wake_path(self._rank)
        path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        listening.setblocking(False)
        listening.bind(str(path))
        return listening

    def _wake(self, ranks: Iterable[int]) -> None:
        self._fence()
        for rank in ranks:
            if rank != self._rank and self._segment.asleep[rank]:
                with contextlib.suppress(OSError):  # not there yet, or woken more often than it has looked
                    self._socket.sendto(b"\0", str(self._wake_path(rank)))

    def _await(self, counters: Counters, number: int, sources: Sequence[int], timeout: Timeout) -> None:
        """Sleep until the first of these sources has sent the number."""
        asleep = self._segment.asleep
        asleep[self._rank] = 1
        self._fence()
        try:
            while counters[sources[0]] <= number:
                if not self._slept(timeout.interval_s):
                    timeout.check([source for source in sources if counters[source] <= number])
        finally:
            asleep[self._rank] = 0

    def _slept(self, most_s: float) -> bool:
        """Sleep until another worker wakes this one; False after so many seconds."""
        if not select.select([self._socket], [], [], most_s)[0]:
            return False
        with contextlib.suppress(BlockingIOError):
            while self._socket.recv(1):
                pass
        return True

    def _wake_path(self, rank: int) -> Path:
        return self._folder / f"wake-{self._generation}-{rank}"

    def _fence(self) -> None:
        """Have what was written before seen before what is written after: a lock's own barriers, both ways."""
        self._fence_lock.release()
        self._fence_lock.acquire()


def remove_segments(url_name: str) -> None:
    """Remove what workers of shm://NAME have left; no error where there is nothing."""
    shutil.rmtree(_folder(url_name), ignore_errors=True)


def shared_folder(url_name: str) -> Path:
    """The folder of all that workers of shm://NAME share."""
    folder = _folder(url_name)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def _folder(url_name: str) -> Path:
    if not _NAME.fullmatch(url_name):
        raise UserError(
            f"shm://{url_name} is not a valid name for shared memory.",
            "Use up to 40 letters, digits, '.', '_' and '-'.",
        )
    return _SHARED / f"mlcd-{url_name}"
