"""A file of shared memory that holds the parcels of one generation of workers.

All sizes follow from the world size W, SLOTS and the largest parcel:

    header     what it was made for
    sent       W × W counters: one more than the newest number of a PIECE, from each worker to each worker
    published  W counters: the same of RESULTs
    asleep     W bytes: whether a worker sleeps until it is woken
    notices    W × 4096 bytes: until when it holds, its length, its text
    pieces     W sources × SLOTS × W receivers × largest parcel
    results    W sources × SLOTS × largest parcel
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import secrets
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mlcd.sync.errors import StoreFull, SyncError
from mlcd.sync.store import CACHE_LINE_BYTES, SLOTS, Bytes, round_up_to_cache_lines

_HEADER = struct.Struct("<8sQQ")
_MAGIC = b"mlcdshm1"
NOTICE_BYTES = 4096


class Segment:
    """The parts of the file, as arrays over the same memory."""

    def __init__(self, path: Path, world_size: int, parcel_bytes: int) -> None:
        shapes = {
            "sent": (world_size, world_size, 8),
            "published": (world_size, 8),
            "asleep": (world_size,),
            "notices": (world_size, NOTICE_BYTES),
            "pieces": (world_size, SLOTS, world_size, parcel_bytes),
            "results": (world_size, SLOTS, parcel_bytes),
        }
        header = _HEADER.pack(_MAGIC, world_size, parcel_bytes)
        total = CACHE_LINE_BYTES + sum(round_up_to_cache_lines(int(np.prod(shape))) for shape in shapes.values())
        parts = _cut(_mapped(path, header, total), shapes)
        self.sent: npt.NDArray[np.uint64] = parts["sent"].view(np.uint64)[..., 0]
        self.published: npt.NDArray[np.uint64] = parts["published"].view(np.uint64)[..., 0]
        self.asleep = parts["asleep"]
        self.notices = parts["notices"]
        self.pieces = parts["pieces"]
        self.results = parts["results"]


def map_file(path: Path, total: int) -> Bytes:
    """A file as memory, shared with whoever maps it too."""
    with path.open("r+b") as file:
        return np.frombuffer(mmap.mmap(file.fileno(), total), dtype=np.uint8)


def new_file(path: Path, header: bytes, total: int) -> None:
    """Make a file of so many bytes in one atomic step; FileExistsError where somebody was first."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}.draft")
    try:
        with draft.open("wb") as file:
            file.write(header)
            file.flush()
            _reserve(file, total, path)
        os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _cut(whole: Bytes, shapes: dict[str, tuple[int, ...]]) -> dict[str, Bytes]:
    parts, start = {}, CACHE_LINE_BYTES
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        parts[name] = whole[start : start + size].reshape(shape)
        start += round_up_to_cache_lines(size)
    return parts


def _mapped(path: Path, header: bytes, total: int) -> Bytes:
    """The file in memory; whoever comes first makes it."""
    if not path.exists():
        with contextlib.suppress(FileExistsError):
            new_file(path, header, total)
    memory = map_file(path, total)
    if memory[: len(header)].tobytes() != header:
        raise SyncError(f"The shared memory {path} belongs to other workers.", "Use another name or generation.")
    return memory


def _reserve(file: Any, total: int, path: Path) -> None:
    """Take the memory now: a store that is full later would kill the workers with SIGBUS."""
    try:
        os.posix_fallocate(file.fileno(), 0, total)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG):
            raise
        raise StoreFull(
            f"There is no room for {total >> 20} MB of shared memory in {path.parent}.",
            "Free some, or use a parameter store on a server.",
        ) from error
