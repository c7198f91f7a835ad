"""The state after a worker's newest iteration, in a file that outlives its program.

Workers are started anew when one of them is lost. Those that are left find here what they had, and hand it to the
newcomer: nobody is thrown back to the newest checkpoint (Group.keep and Group.restore).

    <folder>/0, <folder>/1       two slots, written in turn:  header │ array │ array │ …
    header                       JSON: step, what was trained by then, and a digest of the arrays' types and sizes

A header is blanked before its arrays are written, and comes last: a kill leaves the other slot. The pages belong to the
system and not to the process, so that a kill loses none; what dies with the machine is what its checkpoints are for.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlcd.sync.sharding import Array, flat
from mlcd.worker.checkpoints import Facts

_HEADER_BYTES = 4096
_BLANK = b"\0"


@dataclass(frozen=True)
class State:
    """What was kept."""

    step: int
    facts: Facts
    file: Path


class Kept:
    """The two slots of one worker."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._slots: dict[int, mmap.mmap] = {}
        self._turn = 0

    def write(self, step: int, facts: Facts, arrays: Sequence[Array]) -> None:
        """Keep the state after this step, in the place of the one before the last; OSError: there is no room."""
        slot = self._slot(_HEADER_BYTES + sum(array.nbytes for array in arrays))
        slot[:1] = _BLANK
        view, start = np.frombuffer(slot, np.uint8), _HEADER_BYTES
        for array in arrays:
            view[start : start + array.nbytes] = flat(array).view(np.uint8)
            start += array.nbytes
        header = json.dumps({"step": step, "facts": asdict(facts), "arrays": _digest(arrays)}).encode()
        slot[1 : len(header)] = header[1:]
        slot[len(header) : _HEADER_BYTES] = b" " * (_HEADER_BYTES - len(header))
        slot[:1] = header[:1]
        self._turn = 1 - self._turn

    def newest(self, arrays: Sequence[Array]) -> State | None:
        """The newest state of arrays like these; the next to be written takes the other slot."""
        found = [state for slot in (0, 1) if (state := self._read(slot, arrays)) is not None]
        newest = max(found, key=lambda state: state.step, default=None)
        if newest is not None:
            self._turn = 1 - int(newest.file.name)
        return newest

    def load(self, state: State, arrays: Sequence[Array]) -> None:
        """Put what was kept into these arrays."""
        data, start = np.memmap(state.file, np.uint8, "r"), _HEADER_BYTES
        for array in arrays:
            flat(array).view(np.uint8)[:] = data[start : start + array.nbytes]
            start += array.nbytes

    def _read(self, slot: int, arrays: Sequence[Array]) -> State | None:
        file = self._folder / str(slot)
        try:
            with file.open("rb") as stream:
                header: Any = json.loads(stream.read(_HEADER_BYTES))
            known = header["arrays"] == _digest(arrays)
            facts = {**header["facts"], "reported": tuple(header["facts"]["reported"])}
            return State(int(header["step"]), Facts(**facts), file) if known else None
        except (OSError, ValueError, LookupError, TypeError):
            return None

    def _slot(self, size: int) -> mmap.mmap:
        """The slot whose turn it is, with that much room: a disk that is full is an error here, and not a signal later."""
        slot = self._slots.get(self._turn)
        if slot is None or len(slot) != size:
            self._folder.mkdir(parents=True, exist_ok=True)
            slot = self._slots[self._turn] = _mapped(self._folder / str(self._turn), size)
        return slot


def _mapped(file: Path, size: int) -> mmap.mmap:
    """A new file of that size; where there is no room for it, it takes none from the checkpoints either."""
    handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.ftruncate(handle, 0)
        os.posix_fallocate(handle, 0, size)
        return mmap.mmap(handle, size)
    except OSError:
        with suppress(OSError):
            file.unlink()
        raise
    finally:
        os.close(handle)


def _digest(arrays: Sequence[Array]) -> str:
    """Alike for arrays of the same types and sizes: a model may have thousands, and the header has its place."""
    kinds = [(array.dtype.str, array.size) for array in arrays]
    return hashlib.sha256(json.dumps(kinds).encode()).hexdigest()
