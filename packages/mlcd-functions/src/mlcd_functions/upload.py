"""The program's folder as one zip in the object store: code, data and mounted files, once for all functions."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from mlcd.clouds.tasks.copies import copy_workdir, mount
from mlcd.core.task import Task
from mlcd.errors import UserError
from mlcd_functions.messages import CODE
from mlcd_functions.objects.base import ObjectStore


def upload_code(
    task: Task,
    home: Path,
    into: Path,
    objects: ObjectStore,
    check: Callable[[], None],
    disk_mb: int | None = None,
) -> None:
    """Copy the folder without junk, put the mounts in, zip it and send it, if it fits a disk of that size."""
    copy, archive = into / "code", into / CODE
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(parents=True)
    try:
        if task.workdir:
            copy_workdir(Path(task.workdir), copy, skip=home.resolve(), check=check)
        mount(task.file_mounts, Path(task.workdir), copy, check)
        _zip(copy, archive, check)
        _check_fits(archive, disk_mb)
        objects.upload(archive, CODE)
    finally:
        shutil.rmtree(copy, ignore_errors=True)
        archive.unlink(missing_ok=True)


def _check_fits(archive: Path, disk_mb: int | None) -> None:
    """The archive and what is in it are on a function's disk at the same time."""
    with zipfile.ZipFile(archive) as packed:
        needed = archive.stat().st_size + sum(entry.file_size for entry in packed.infolist())
    if disk_mb is not None and needed > disk_mb << 20:
        raise UserError(
            f"Code and data need {needed / 2**20:,.0f} MB of a function's disk, which has {disk_mb:,} MB.",
            "Raise the setting functions.disk_mb (up to 10240), or let the program fetch its data itself.",
        )


def _zip(folder: Path, archive: Path, check: Callable[[], None]) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1, strict_timestamps=False) as packed:
        for path in _files(folder):
            check()
            packed.write(path, path.relative_to(folder).as_posix())


def _files(folder: Path) -> Iterator[Path]:
    """Files and empty folders; a mount that was linked because of its size is sent as what it is."""
    entered: set[Path] = set()
    for root, folders, names in os.walk(folder, followlinks=True):
        if Path(root).resolve() in entered:  # a link to a folder above it would be followed for ever
            folders.clear()
            continue
        entered.add(Path(root).resolve())
        yield from (Path(root, name) for name in sorted(names) if Path(root, name).is_file())
        yield from (Path(root, name) for name in folders if not any(Path(root, name).iterdir()))
