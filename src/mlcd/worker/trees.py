"""Folders that a program made, read and copied without ever leaving them.

A link that stays within the folder is kept. One that leads out of it, a pipe, a socket and a device are left out:
what they lead to is not the program's to hand over, and reading them may never end.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn

_FICLONE = 0x40049409  # copy without copying, where the file system can
_AS_IT_IS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK_BYTES = 1 << 20
_SHOWN = 3


def copy_inside(folder: Path, into: Path, rename: Mapping[str, str | None] | None = None) -> list[str]:
    """Copy all that is below a folder but for what is renamed to None; gives the names that were left out.

    The program may still be at work: files are opened as what they were when they were looked at.
    """
    into.mkdir(parents=True, exist_ok=True)
    if folder.is_symlink():
        return [folder.name]
    root, left_out = Path(os.path.realpath(folder)), []
    for here, folders, files, handle in os.fwalk(root, onerror=_raise):
        for name in sorted((*folders, *files)):
            old = str((Path(here) / name).relative_to(root))
            new = (rename or {}).get(old, old)
            if new is not None and not _copy_entry(handle, name, Path(here), root, into / new):
                left_out.append(old)
    return left_out


def files_inside(folder: Path) -> Iterator[Path]:
    """All files below a folder, also by links that stay within it, in order."""
    if folder.is_symlink():
        return
    root = Path(os.path.realpath(folder))
    for here, folders, files in os.walk(folder):
        folders.sort()
        for path in (Path(here, name) for name in sorted(files)):
            if (path.is_symlink() and is_file_inside(path, root)) or _is_regular(path):
                yield path


def read_part(file: Path, offset: int, most: int) -> bytes:
    """At most so many bytes of a file from a place on; none of a link, a pipe or a device, which may never end."""
    try:
        handle = os.open(file, _AS_IT_IS)
    except OSError:  # not there, or a link
        return b""
    try:
        return os.pread(handle, most, offset) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(handle)


def is_file_inside(path: Path, root: Path) -> bool:
    """Whether this is a file, by whatever links, within a folder that is given as it really lies."""
    real = os.path.realpath(path)
    return is_below(real, root) and _is_regular(Path(real))


def is_below(path: str, root: Path) -> bool:
    """Whether a path as it really lies is the folder or below it."""
    return path == str(root) or path.startswith(f"{str(root).rstrip('/')}/")


def in_words(names: list[str]) -> str:
    """The first few of the names, and how many more there are."""
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:  # gone meanwhile, or a link to nothing
        return False


def _copy_entry(handle: int, name: str, here: Path, root: Path, target: Path) -> bool:
    """Copy one; False: it leads out of the folder, or is neither file nor folder nor link."""
    mode = os.lstat(name, dir_fd=handle).st_mode
    if stat.S_ISDIR(mode):
        target.mkdir(parents=True, exist_ok=True)
    elif stat.S_ISLNK(mode):
        return _copy_link(os.readlink(name, dir_fd=handle), here, root, target)
    elif stat.S_ISREG(mode):
        return _copy_file(handle, name, target)
    else:
        return False
    return True


def _copy_link(words: str, here: Path, root: Path, target: Path) -> bool:
    aim = os.path.realpath(here / words)
    if not is_below(aim, root):
        return False
    # Not in its own words: they may climb out of the folder and come back by its name, which the copy does not have.
    target.symlink_to(os.path.relpath(aim, here))
    return True


def _copy_file(handle: int, name: str, target: Path) -> bool:
    try:
        source = os.open(name, _AS_IT_IS, dir_fd=handle)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # it has become a link or a pipe meanwhile
            return False
        raise
    with os.fdopen(source, "rb") as old:
        info = os.fstat(source)
        if not stat.S_ISREG(info.st_mode):
            return False
        with target.open("wb") as new:
            try:
                fcntl.ioctl(new.fileno(), _FICLONE, source)
            except OSError:
                shutil.copyfileobj(old, new, _CHUNK_BYTES)
            os.fchmod(new.fileno(), stat.S_IMODE(info.st_mode) & 0o777)
        os.utime(target, ns=(info.st_atime_ns, info.st_mtime_ns))
    return True


def _raise(error: OSError) -> NoReturn:
    raise error
