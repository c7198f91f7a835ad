"""A folder as one zip file, made while it is sent: nothing is held in memory and nothing written to disk."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from mlcd.worker.trees import files_inside

CHUNK_BYTES = 256 * 1024
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same content gives the same bytes


def zip_folder(folder: Path) -> Iterator[bytes]:
    """The files below a folder, in order; a link that stays within it is packed as what it means."""
    files = sorted(files_inside(folder))
    return zip_files((path.relative_to(folder).as_posix(), path) for path in files)


def zip_files(files: Iterable[tuple[str, Path]]) -> Iterator[bytes]:
    """These files under these names."""
    pipe = _Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:  # type: ignore[call-overload]  # write-only is enough
        for name, path in files:
            with path.open("rb") as source, archive.open(_info(name, path), "w", force_zip64=True) as entry:
                while chunk := source.read(CHUNK_BYTES):
                    entry.write(chunk)
                    yield from pipe.take()
    yield from pipe.take()


def _info(name: str, path: Path) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _LONG_AGO)
    info.compress_type = zipfile.ZIP_DEFLATED
    executable = path.stat().st_mode & 0o100
    info.external_attr = (0o100755 if executable else 0o100644) << 16
    return info


class _Pipe:
    """Takes what the archive writes and hands it on."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        """Keep it until it is taken."""
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""

    def take(self) -> Iterator[bytes]:
        """What was written since the last time."""
        if self._parts:
            parts, self._parts = self._parts, []
            yield b"".join(parts)
