"""What a job needs from this computer, packed and sent: its folder, its mounted files, a trace."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from mlcd.clouds.tasks.copies import JUNK
from mlcd.engine.archive import zip_files
from mlcd.errors import InvalidJobError, NotFoundError
from mlcd.remote.connection import Connection


def upload_folder(connection: Connection, folder: Path) -> str:
    """Send a folder without its junk; gives the upload's id. What is there already is not sent again."""
    files = sorted(_files(folder))
    if not files:
        raise InvalidJobError(f"The folder {folder} is empty.", "Fix `workdir` or `file_mounts` in the job.")
    return _send(connection, files, f"{folder.name or 'folder'}.zip")


def upload_path(connection: Connection, path: Path) -> str:
    """Send a file or a folder; gives what stands for it on the server."""
    if path.is_dir():
        return f"upload:{upload_folder(connection, path)}"
    upload = _send(connection, [(path.name, path)], f"{path.name}.zip")
    return f"upload:{upload}/{path.name}"


def _send(connection: Connection, files: list[tuple[str, Path]], name: str) -> str:
    with tempfile.TemporaryFile(prefix="mlcd-send-") as packed:
        digest = _pack(files, packed)
        try:
            found = connection.get(f"/uploads/by-content/{digest}", name=name)
        except NotFoundError:
            found = connection.send("/uploads", packed, name=name)
        return str(found["upload"]["id"])


def _pack(files: list[tuple[str, Path]], into: IO[bytes]) -> str:
    digest = hashlib.sha256()
    for chunk in zip_files(files):
        digest.update(chunk)
        into.write(chunk)
    return digest.hexdigest()


def _files(folder: Path, seen: frozenset[Path] = frozenset(), prefix: str = "") -> Iterator[tuple[str, Path]]:
    """Names and files below a folder; links are followed to what they mean, but never in a circle."""
    here = folder.resolve()
    if here in seen:
        return
    for entry in sorted(os.scandir(folder), key=lambda each: each.name):
        if entry.is_dir():
            if entry.name not in JUNK:
                yield from _files(Path(entry.path), seen | {here}, f"{prefix}{entry.name}/")
        elif entry.is_file():
            yield f"{prefix}{entry.name}", Path(entry.path)
