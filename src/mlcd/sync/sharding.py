"""Buffers are cut into one shard per worker, shards into chunks; a round has one chunk of every shard.

With three workers, shards of four, four and three numbers and chunks of two:

    buffer   0 1 2 3 │ 4 5 6 7 │ 8 9 10
    round 0  0 1       4 5       8 9
    round 1      2 3       6 7     10

The cut depends on sizes only, so all workers cut alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Round = list[Array]  # one chunk for each worker, in the order of ranks


def cut_into_rounds(buffers: Sequence[Array], workers: int, chunk_bytes: int) -> list[Round]:
    """The rounds of flat buffers, one buffer after the other."""
    return [each for buffer in buffers for each in _rounds(buffer, workers, chunk_bytes)]


def shards(length: int, workers: int) -> list[slice]:
    """Equal shares of so many numbers; the first ones have one more where it does not divide."""
    share, rest = divmod(length, workers)
    starts = [rank * share + min(rank, rest) for rank in range(workers + 1)]
    return [slice(start, stop) for start, stop in pairwise(starts)]


def cut_into_chunks(buffer: Array, chunk_bytes: int) -> list[Array]:
    """The buffer in chunks, at least one."""
    step = max(1, chunk_bytes // buffer.itemsize)
    return [buffer[start : start + step] for start in range(0, max(1, buffer.size), step)]


def _rounds(buffer: Array, workers: int, chunk_bytes: int) -> Iterator[Round]:
    step = max(1, chunk_bytes // buffer.itemsize)
    mine = [buffer[shard] for shard in shards(buffer.size, workers)]
    for start in range(0, max(1, mine[0].size), step):
        yield [shard[start : start + step] for shard in mine]


def flat(buffer: Array) -> Array:
    """The buffer as one row over the same memory; refused where that is impossible."""
    if not isinstance(buffer, np.ndarray) or not buffer.flags.writeable:
        raise ValueError("A buffer must be a writeable NumPy array.")
    if not (buffer.flags.c_contiguous or buffer.flags.f_contiguous):
        raise ValueError("A buffer must be contiguous.")
    return buffer.reshape(-1, order="A")


def pack(buffers: Sequence[Array], small_bytes: int) -> tuple[list[Array], list[tuple[Array, Array]]]:
    """Few flat buffers in place of many small ones, and which parts of them to copy back to which small one."""
    small: dict[np.dtype[Any], list[Array]] = {}
    packed: list[Array] = []
    for buffer in buffers:
        if buffer.nbytes < small_bytes and len(buffers) > 1:
            small.setdefault(buffer.dtype, []).append(flat(buffer))
        else:
            packed.append(flat(buffer))
    copies: list[tuple[Array, Array]] = []
    for group in small.values():
        joined = np.concatenate(group)
        ends = np.cumsum([one.size for one in group])
        copies += [(one, joined[end - one.size : end]) for one, end in zip(group, ends, strict=True)]
        packed.append(joined)
    return packed, copies
