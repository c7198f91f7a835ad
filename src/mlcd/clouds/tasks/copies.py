"""Working copies: every node gets the program's folder for itself, so that none disturbs another or the original."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from mlcd.errors import CloudError
from mlcd.worker.fetch import LINK_BYTES

JUNK = frozenset(
    {
        ".git",
        "__pycache__",
        ".venv",
        ".tox",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".ipynb_checkpoints",
    }
)
LARGE_BYTES = 2**30  # a working copy this large deserves a word in the log
_FICLONE = 0x40049409  # copy without copying, where the file system can

Signatures = dict[str, tuple[int, int]]  # file → size, time of change


def copy_workdir(workdir: Path, into: Path, skip: Path, check: Callable[[], None]) -> int:
    """Copy the program's folder, leaving out junk and `skip` (our own folder may lie within); its bytes."""
    if not workdir.is_dir():
        raise CloudError(f"The workdir {workdir} is not a folder.", "Fix `workdir` in the job.")
    return sum(_copy_entry(entry, into, workdir, check) for entry in entries_of(workdir, skip))


def mount(mounts: Mapping[str, str], workdir: Path, copy: Path, check: Callable[[], None]) -> list[str]:
    """Put the mounted files into a working copy; what was linked because of its size."""
    return [target for target, source in mounts.items() if _mount_one(target, source, workdir, copy, check)]


def signatures(folder: Path) -> Signatures:
    """Size and time of change of every file: what is new or changed later shows in it."""
    found: Signatures = {}
    for file in files_of(folder):
        try:
            stat = file.stat()
        except OSError:  # gone meanwhile, or a dangling link
            continue
        found[str(file.relative_to(folder))] = (stat.st_size, stat.st_mtime_ns)
    return found


def files_of(folder: Path) -> Iterator[Path]:
    """All files below a folder; linked folders are not entered."""
    for root, _, names in os.walk(folder):
        yield from (Path(root, name) for name in names)


def entries_of(folder: Path, skip: Path) -> Iterator[Path]:
    """All below a folder but for junk and what is our own; folders before their content."""
    for root, names, files in os.walk(folder):
        names[:] = [name for name in names if name not in JUNK and Path(root, name).resolve() != skip]
        yield from (Path(root, name) for name in (*names, *files))


def copy_file(source: Path, target: Path) -> None:
    """Copy a file's content, mode and times; never a second name for the same file."""
    try:
        with source.open("rb") as old, target.open("wb") as new:
            fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
        shutil.copystat(source, target)
    except OSError:
        shutil.copy2(source, target)


def _copy_entry(entry: Path, into: Path, base: Path, check: Callable[[], None]) -> int:
    check()
    target = into / entry.relative_to(base)
    if entry.is_symlink():
        target.symlink_to(_same_place(entry, base))
    elif entry.is_dir():
        target.mkdir(exist_ok=True)
    elif entry.is_file():  # no sockets, no pipes
        copy_file(entry, target)
        return entry.stat().st_size
    return 0


def _same_place(link: Path, base: Path) -> str:
    """Where a link must point in the copy to mean what it meant: within the folder the copy, outside the original."""
    aim = Path(os.path.normpath(link.parent / link.readlink()))
    return str(link.readlink()) if aim.is_relative_to(base) and not link.readlink().is_absolute() else str(aim)


def _mount_one(target: str, source: str, workdir: Path, copy: Path, check: Callable[[], None]) -> bool:
    if "://" in source:
        raise CloudError(
            f"file_mounts: {source} is not on this computer.",
            "The local cloud mounts local paths only; download it first.",
        )
    origin = (workdir / Path(source).expanduser()).resolve()
    if not origin.exists():
        raise CloudError(f"file_mounts: there is no {origin}.", "Fix `file_mounts` in the job.")
    place = Path(os.path.normpath(copy / Path(target).expanduser()))
    if place.resolve() == origin:
        return False
    if not place.is_relative_to(copy):
        raise CloudError(
            f"file_mounts: {target} is outside the working copy.",
            "On the local cloud mount to a relative path: the program runs on this very computer.",
        )
    return _bring(origin, place, check)


def _bring(origin: Path, place: Path, check: Callable[[], None]) -> bool:
    """Copy what is small, link what is large; whether it was linked."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if _bytes_of(origin) > LINK_BYTES:
        place.symlink_to(origin)
        return True
    if origin.is_file():
        copy_file(origin, place)
    else:
        place.mkdir(exist_ok=True)
        copy_workdir(origin, place, skip=place, check=check)
    return False


def _bytes_of(path: Path) -> int:
    return path.stat().st_size if path.is_file() else sum(size for size, _ in signatures(path).values())
