"""Gradients that lie in shared memory from the start: nothing needs to be uploaded, and sums are written where they belong.

Every worker allocates the same buffers in the same order. Each is a file beside the segment, which the other workers map
when they first need it:

    buffer-<generation>-<rank>-<index>
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mlcd.sync.sharding import Array
from mlcd.sync.shm.segment import map_file, new_file
from mlcd.sync.store import Bytes, Member, round_up_to_cache_lines


class SharedBuffers:
    """One worker's buffers, and its view of the others'."""

    def __init__(self, folder: Path, member: Member) -> None:
        self._folder, self._member = folder, member
        self._own: list[Bytes] = []
        self._of_all: dict[int, list[Bytes]] = {}

    def allocate(self, size: int) -> Bytes:
        """So many bytes of shared memory, zero."""
        path = self._path(self._member.rank, len(self._own))
        total = round_up_to_cache_lines(max(1, size))
        new_file(path, b"", total)
        self._own.append(map_file(path, total))
        return self._own[-1][:size]

    def holds(self, array: Array) -> bool:
        """Whether the array lies in one of them."""
        return self._find(array) is not None

    def of_all(self, array: Array) -> list[Array]:
        """The same array of every worker, in the order of ranks; all have allocated it by now."""
        index, offset = self._find(array) or (0, 0)
        views = (whole[offset : offset + array.nbytes] for whole in self._mapped(index))
        return [view.view(array.dtype) for view in views]

    def remove(self) -> None:
        """Remove the names; who has the memory mapped keeps it."""
        for index in range(len(self._own)):
            self._path(self._member.rank, index).unlink(missing_ok=True)

    def _find(self, array: Array) -> tuple[int, int] | None:
        """The index of the buffer that it lies in, and where."""
        for index, own in enumerate(self._own):
            offset = _address(array) - _address(own)
            if offset >= 0 and offset + array.nbytes <= own.nbytes:
                return index, offset
        return None

    def _mapped(self, index: int) -> list[Bytes]:
        if index not in self._of_all:
            size = self._own[index].nbytes
            others = range(self._member.world_size)
            self._of_all[index] = [
                self._own[index] if rank == self._member.rank else map_file(self._path(rank, index), size)
                for rank in others
            ]
        return self._of_all[index]

    def _path(self, rank: int, index: int) -> Path:
        return self._folder / f"buffer-{self._member.generation}-{rank}-{index}"


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])
