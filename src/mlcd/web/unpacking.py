"""Archives from strangers: nothing is written outside the folder, no links, no bombs.

Every name and kind of entry is looked at before it is written, and the bytes are counted as they come out:
what an archive says about itself is not believed.
"""

from __future__ import annotations

import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from lzma import LZMAError
from pathlib import Path, PurePosixPath
from typing import IO

from mlcd.errors import UserError

MOST_ENTRIES = 100_000
MOST_RATIO = 200  # unpacked ÷ packed, for archives that unpack to more than …
BOMB_BYTES = 100 * 2**20
LONGEST_NAME = 4000
_CHUNK = 256 * 1024
_BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    LZMAError,
    EOFError,
    NotImplementedError,  # a way of packing that Python does not know
    RuntimeError,  # a password is needed
    FileExistsError,  # a name is both a file and a folder
    NotADirectoryError,
    ValueError,
)
_ARCHIVES = (".zip", ".whl", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")


@dataclass
class Allowance:
    """How much may still be written."""

    left_bytes: int
    left_entries: int = MOST_ENTRIES

    def entry(self) -> None:
        """One more of them."""
        self.left_entries -= 1
        if self.left_entries < 0:
            raise UserError(f"The archive holds more than {MOST_ENTRIES:,} files.", "Send fewer.")

    def take(self, size: int) -> None:
        """So many bytes more."""
        self.left_bytes -= size
        if self.left_bytes < 0:
            raise UserError(
                "The archive unpacks to more than this server takes.", "Send less, or a smaller part."
            )


def unpack(file: Path, name: str, into: Path, most_bytes: int) -> None:
    """Put what was sent into a folder: the content of an archive, or the one file that it is."""
    packed = file.stat().st_size
    allowance = Allowance(min(most_bytes, max(BOMB_BYTES, packed * MOST_RATIO)))
    into.mkdir(parents=True)
    if zipfile.is_zipfile(file):
        _unzip(file, into, allowance)
    elif _is_tar(file):
        _untar(file, into, allowance)
    elif name.lower().endswith(_ARCHIVES):
        raise UserError(f"'{name}' is not an archive that can be read.", "Pack it again and send it again.")
    else:
        (into / name).hardlink_to(file)


def safe_name(text: str) -> str:
    """A file name and nothing more."""
    name = PurePosixPath(text.replace("\\", "/")).name.strip()
    kept = "".join(letter for letter in name if letter.isprintable())[:200]
    return kept if kept not in ("", ".", "..") else "upload"


def _unzip(file: Path, into: Path, allowance: Allowance) -> None:
    with _readable(), zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            allowance.entry()
            mode = info.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise UserError(
                    f"'{_shown(info.filename)}' is a link or a device.", "Send files and folders only."
                )
            place = _place(into, info.filename)
            if info.is_dir():
                place.mkdir(parents=True, exist_ok=True)
                continue
            with archive.open(info) as source:
                _write(source, place, bool(mode & 0o100), allowance)


def _untar(file: Path, into: Path, allowance: Allowance) -> None:
    with _readable(), tarfile.open(file) as archive:
        for member in archive:
            allowance.entry()
            place = _place(into, member.name)
            if member.isdir():
                place.mkdir(parents=True, exist_ok=True)
                continue
            source = archive.extractfile(member) if member.isreg() else None
            if source is None:
                raise UserError(
                    f"'{_shown(member.name)}' is a link or a device.", "Send files and folders only."
                )
            with source:
                _write(source, place, bool(member.mode & 0o100), allowance)


def _write(source: IO[bytes], place: Path, executable: bool, allowance: Allowance) -> None:
    if place.is_dir():
        raise UserError(f"'{_shown(place.name)}' is both a file and a folder.", "Pack it again.")
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("wb") as target:
        while chunk := source.read(_CHUNK):
            allowance.take(len(chunk))
            target.write(chunk)
    place.chmod(0o755 if executable else 0o644)


def _place(into: Path, name: str) -> Path:
    """Where an entry goes; names that lead anywhere else are refused."""
    parts = PurePosixPath(name).parts
    bad = (
        not parts
        or len(name) > LONGEST_NAME
        or "\\" in name
        or "\0" in name
        or name.startswith("/")
        or ".." in parts
        or ":" in parts[0]
        or any(len(part.encode("utf-8", "replace")) > 255 for part in parts)
    )
    if bad and PurePosixPath(name) != PurePosixPath("."):
        raise UserError(f"The archive holds a name that leads elsewhere: '{_shown(name)}'.", "Pack it again.")
    return into.joinpath(*parts)


def _shown(name: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in name)[:80]


def _is_tar(file: Path) -> bool:
    try:
        return tarfile.is_tarfile(file)
    except (OSError, EOFError, zlib.error, LZMAError):
        return False


@contextmanager
def _readable() -> Iterator[None]:
    """What a broken archive raises, in plain words."""
    try:
        yield
    except _BROKEN as error:
        raise UserError(
            f"The archive cannot be read: {error}.", "Pack it again, without a password."
        ) from error
