"""What machines, functions and programs send home, checked before it is used: names, sizes, counts, kinds of files.

Whoever runs the program may have changed all of it: a name must not lead out of the folder it is put into, a size must
not fill the disk, and a file must be a file.
"""

from __future__ import annotations

import json
import re
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mlcd.errors import CloudError
from mlcd.worker.names import is_inner, is_plain

MOST_NAMES = 100_000  # in one list
MOST_NUMBER = 1e300  # sums of a list of them are still finite
RESERVE_BYTES = 64 << 20  # of the disk: nothing is brought home that would leave less
_CHECKPOINT = re.compile(r"\d{1,12}-\d{1,20}")
_USAGE = ("cpu_share", "memory_gib", "peak_memory_gib", "peak_gpu_memory_gib")  # the rest may not be known


def inside(folder: Path, name: Any) -> Path:
    """A file's place in a folder; a name that leads out of it is refused, whoever sent it."""
    if is_inner(name):
        place: Path = (folder / str(name)).resolve()
        if place.is_relative_to(folder.resolve()):
            return place
    raise CloudError(f"A machine named a file '{_shown(name)}', which does not lie within its folder.")


def checkpoint_name(name: Any) -> str:
    """The name of a checkpoint, `<sequence>-<samples>`; any other is refused."""
    if not is_checkpoint(name):
        raise CloudError(f"A machine named a checkpoint '{_shown(name)}', which is no name of one.")
    return str(name)


def refuse_no_room(folder: Path, size: int) -> None:
    """Refuse what would fill this computer's disk."""
    if size > room(folder):
        free = shutil.disk_usage(folder).free
        raise CloudError(
            f"There is no room for {size / 2**20:,.0f} MiB: {free / 2**20:,.0f} MiB are free here.",
            "Make room.",
        )


def room(folder: Path) -> int:
    """How many bytes may be brought home into a folder; below 0: the disk is as good as full."""
    return shutil.disk_usage(folder).free - RESERVE_BYTES


def regular_bytes(file: Path) -> int:
    """The size of a file that was brought; what is a link or a device is removed and refused."""
    info = file.lstat()
    if not stat.S_ISREG(info.st_mode):
        file.unlink()
        raise CloudError(f"A machine sent something in the place of the file '{file.name}' that is none.")
    return info.st_size


def agent_state(text: bytes | None) -> dict[str, Any]:
    """What an agent says of its node, or nothing where it is torn; CloudError: no agent of ours would say that."""
    try:
        words = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    if not isinstance(words, dict):
        raise CloudError("The state that the machine sent is no state.")
    wrong = [name for name, fits in _WORDS.items() if name in words and not fits(words[name])]
    if words.get("phase") == "ended":
        wrong += [name for name in ("why", "codes", "ended_at") if name not in words]
    if wrong:
        raise CloudError(f"The state that the machine sent has a '{wrong[0]}' that cannot be right.")
    return words


def is_count(value: Any) -> bool:
    """Whether this is a whole number of zero or more that a disk can hold."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def is_number(value: Any) -> bool:
    """Whether this is a finite number, and small enough to be reckoned with: whole numbers may have any size."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MOST_NUMBER


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 10_000


def _is_number_or_none(value: Any) -> bool:
    return value is None or is_number(value)


def is_checkpoint(name: Any) -> bool:
    """Whether this is the name of a checkpoint."""
    return isinstance(name, str) and _CHECKPOINT.fullmatch(name) is not None


def _is_progress(name: Any) -> bool:
    return is_plain(name) and name.startswith("rank-") and name.endswith(".jsonl")


def _are_checkpoints(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= MOST_NAMES and all(map(is_checkpoint, value))


def _are_codes(value: Any) -> bool:
    if not isinstance(value, list) or len(value) > MOST_NAMES:
        return False
    return all(code is None or (isinstance(code, int) and abs(code) < 2**31) for code in value)


def _are_sizes(of: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def fits(value: Any) -> bool:
        few = isinstance(value, dict) and len(value) <= MOST_NAMES
        return few and all(of(name) and is_count(size) for name, size in value.items())

    return fits


def _is_usage(value: Any) -> bool:
    if not isinstance(value, dict) or len(value) > MOST_NAMES:
        return False
    return not value or (
        all(map(_is_number_or_none, value.values())) and all(is_number(value.get(name)) for name in _USAGE)
    )


# What is not named here is taken as it is, and only shown.
_WORDS: Mapping[str, Callable[[Any], bool]] = {
    "phase": _is_text,
    "beat": is_number,
    "why": _is_text,
    "codes": _are_codes,
    "ended_at": _is_number_or_none,
    "running_at": _is_number_or_none,
    "notice": _is_text,
    "usage": _is_usage,
    "log": is_count,
    "progress": _are_sizes(_is_progress),
    "checkpoints": _are_checkpoints,
    "snapshots": _are_checkpoints,
    "outputs": _are_sizes(is_inner),
}


def _shown(name: Any) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in str(name))[:80]
