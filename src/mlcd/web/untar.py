"""A tar archive from a stranger, unpacked in a process of its own: `python -m mlcd.web.untar '{…}'`.

What a tar says of its entries (long names, attributes, maps of holes) is read into memory before anybody can look at its size, and
may take hours to read. So it is read with little memory and for a limited time, and the server goes on meanwhile.
"""

from __future__ import annotations

import json
import resource
import sys
import tarfile
import zlib
from lzma import LZMAError
from pathlib import Path
from typing import Any, NoReturn

from mlcd.errors import UserError
from mlcd.web.archives import (
    NO_TAR,
    Allowance,
    BrokenArchiveError,
    place_of,
    readable,
    refuse_many,
    shown,
    write_entry,
)

MEMORY_BYTES = 512 << 20
CPU_SECONDS = 900


def main(order: dict[str, Any]) -> None:
    """Unpack; what was wrong goes to standard output."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    try:
        _untar(Path(order["file"]), Path(order["into"]), order["most_bytes"], order["most_entries"])
    except UserError as error:
        _say(broken=isinstance(error, BrokenArchiveError), message=error.message, hint=error.hint)
    except OSError as error:
        _say(errno=error.errno, message=error.strerror)


def _untar(file: Path, into: Path, most_bytes: int, most_entries: int) -> None:
    if not _is_tar(file):
        sys.exit(NO_TAR)
    with readable(), tarfile.open(file) as archive:
        _look_through(archive, into, Allowance(most_bytes), most_entries)
    with readable(), tarfile.open(file) as archive:
        _unpack(archive, into, Allowance(most_bytes))


def _is_tar(file: Path) -> bool:
    try:
        return tarfile.is_tarfile(file)
    except (OSError, EOFError, zlib.error, LZMAError):
        return False


def _look_through(archive: tarfile.TarFile, into: Path, left: Allowance, most_entries: int) -> None:
    """Look at every entry before any is written; what is passed over counts, or a bomb would go off here."""
    for count, member in enumerate(archive, 1):
        refuse_many(count, most_entries)
        left.take(member.size)
        place_of(into, member.name)
        if not (member.isdir() or member.isreg()):
            raise UserError(f"'{shown(member.name)}' is a link or a device.", "Send files and folders only.")


def _unpack(archive: tarfile.TarFile, into: Path, allowance: Allowance) -> None:
    for member in archive:
        place = place_of(into, member.name)
        if member.isdir():
            place.mkdir(parents=True, exist_ok=True)
            continue
        source = archive.extractfile(member)
        assert source is not None  # of every file, and there is nothing else
        with source:
            write_entry(source, place, bool(member.mode & 0o100), allowance)


def _say(**words: Any) -> NoReturn:
    sys.stdout.write(json.dumps(words))
    sys.exit(1)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
