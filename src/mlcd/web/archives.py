"""Archives from strangers: nothing is written outside the folder, no links, no bombs.

Every name and kind of entry is looked at before the first one is written, and the bytes are counted as they come
out: what an archive says about itself is not believed.
"""

from __future__ import annotations

import errno
import json
import logging
import stat
import subprocess
import sys
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
from mlcd.web.zip_entries import count_entries

log = logging.getLogger("mlcd.web")

MOST_ENTRIES = 100_000
MOST_RATIO = 200  # unpacked ÷ packed, for archives that unpack to more than …
BOMB_BYTES = 100 * 2**20
LONGEST_NAME = 4000
NO_TAR = 3  # how the process ends that was to unpack a tar, where it is none
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
_BROKEN_NUMBERS = (None, errno.EINVAL, errno.ENAMETOOLONG, errno.EISDIR, errno.ENOENT, errno.EILSEQ)
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x5d\0\0")  # how gzip, bzip2, xz and lzma begin
_ARCHIVES = (".zip", ".whl", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")


class BrokenArchiveError(UserError):
    """What was sent cannot be unpacked."""


@dataclass
class Allowance:
    """How much may still be written."""

    left_bytes: int

    def take(self, size: int) -> None:
        """So many bytes more."""
        self.left_bytes -= size
        if self.left_bytes < 0:
            raise UserError("The archive unpacks to more than this server takes.", "Send less, or a smaller part.")


def unpack(file: Path, name: str, into: Path, most_bytes: int) -> None:
    """Put what was sent into a folder: the content of an archive, or the one file that it is."""
    packed = file.stat().st_size
    allowance = Allowance(min(most_bytes, max(BOMB_BYTES, packed * MOST_RATIO)))
    into.mkdir(parents=True)
    if zipfile.is_zipfile(file):
        _unzip(file, into, allowance)
    elif _untar(file, into, allowance):
        return
    elif name.lower().endswith(_ARCHIVES):
        raise BrokenArchiveError(f"'{name}' is not an archive that can be read.", "Pack it again and send it again.")
    else:
        (into / name).hardlink_to(file)


def safe_name(text: str) -> str:
    """A file name and nothing more."""
    name = PurePosixPath(text.replace("\\", "/")).name.strip()
    kept = "".join(letter for letter in name if letter.isprintable())[:200]
    return kept if kept not in ("", ".", "..") else "upload"


def _unzip(file: Path, into: Path, allowance: Allowance) -> None:
    refuse_many(count_entries(file, MOST_ENTRIES), MOST_ENTRIES)
    with readable(), zipfile.ZipFile(file) as archive:
        infos = archive.infolist()
        refuse_many(len(infos), MOST_ENTRIES)
        places = [_place_of_zipped(info, into) for info in infos]
        for info, place in zip(infos, places, strict=True):
            if info.is_dir():
                place.mkdir(parents=True, exist_ok=True)
                continue
            with archive.open(info) as source:
                write_entry(source, place, bool((info.external_attr >> 16) & 0o100), allowance)


def refuse_many(entries: int, most: int) -> None:
    """Refuse an archive of more entries than that."""
    if entries > most:
        raise UserError(f"The archive holds more than {most:,} files.", "Send fewer.")


def _place_of_zipped(info: zipfile.ZipInfo, into: Path) -> Path:
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise UserError(f"'{shown(info.filename)}' is a link or a device.", "Send files and folders only.")
    return place_of(into, info.filename)


def _untar(file: Path, into: Path, allowance: Allowance) -> bool:
    """Unpack a tar in a process of its own, see untar.py; False: it is none."""
    if not _may_be_tar(file):
        return False
    places = {"file": str(file), "into": str(into)}
    order = {**places, "most_bytes": allowance.left_bytes, "most_entries": MOST_ENTRIES}
    done = subprocess.run([sys.executable, "-m", "mlcd.web.untar", json.dumps(order)], capture_output=True, check=False)
    if done.returncode not in (0, NO_TAR):
        raise _told(done)
    return done.returncode == 0


def _may_be_tar(file: Path) -> bool:
    """By its first block alone."""
    with file.open("rb") as stream:
        block = stream.read(tarfile.BLOCKSIZE)
    if block.startswith(_PACKED):
        return True
    try:
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.TarError:
        return False
    return True


def _told(done: subprocess.CompletedProcess[bytes]) -> Exception:
    """What the process said was wrong; one that says nothing was ended by its limits."""
    try:
        said = json.loads(done.stdout)
    except ValueError:
        log.warning("An archive could not be read: %s", done.stderr.decode(errors="replace")[-2000:])
        return BrokenArchiveError("The archive takes too much time or memory to be read.", "Pack it again, as a zip.")
    if "errno" in said:
        return OSError(said["errno"], said["message"])
    return (BrokenArchiveError if said["broken"] else UserError)(said["message"], said["hint"])


def write_entry(source: IO[bytes], place: Path, executable: bool, allowance: Allowance) -> None:
    """Write one file of an archive."""
    if place.is_dir():
        raise UserError(f"'{shown(place.name)}' is both a file and a folder.", "Pack it again.")
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("wb") as target:
        while chunk := source.read(_CHUNK):
            allowance.take(len(chunk))
            target.write(chunk)
    place.chmod(0o755 if executable else 0o644)


def place_of(into: Path, name: str) -> Path:
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
        raise UserError(f"The archive holds a name that leads elsewhere: '{shown(name)}'.", "Pack it again.")
    return into.joinpath(*parts)


def shown(name: str) -> str:
    """A name from an archive, fit to be printed."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)[:80]


@contextmanager
def readable() -> Iterator[None]:
    """What a broken archive raises, in plain words."""
    try:
        yield
    except _BROKEN as error:
        raise _broken(error) from error
    except OSError as error:
        if error.errno not in _BROKEN_NUMBERS:
            raise  # a fault of this computer, such as a disk that is full
        raise _broken(error) from error


def _broken(error: Exception) -> BrokenArchiveError:
    """Without paths of this computer."""
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return BrokenArchiveError(f"The archive cannot be read: {words}.", "Pack it again, without a password.")
