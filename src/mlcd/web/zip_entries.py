"""How many entries a zip file has, by its directory at the end: counted before a large one is read into memory."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import IO

# Signature, disks …, entries, bytes and place of the directory, length of the comment.
_END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")  # signature, disk, place of the large end record, disks
_ENTRY = struct.Struct("<4s24x3H12x")  # signature, lengths of name, extra field and comment
_LONGEST_COMMENT = 65535
_TAIL_BYTES = 1 << 16  # after the end record, as far back as zipfile looks
_AT_ONCE = 1 << 20


def count_entries(file: Path, most: int) -> int:
    """The entries of a zip file; one more than `most` where there are more. 0: it has no directory that can be read.

    A file may be made so that two readers find two directories in it: the one with more entries counts.
    """
    with file.open("rb") as stream:
        return max((_count(stream, end, size, most) for end, size in _directories(stream)), default=0)


def _directories(stream: IO[bytes]) -> list[tuple[int, int]]:
    """Where each directory ends that a reader may take for the file's, and its bytes."""
    length = stream.seek(0, 2)
    stream.seek(max(0, length - _END.size - _TAIL_BYTES))
    tail = stream.read()
    found = tail.rfind(b"PK\5\6", 0, len(tail) - _END.size + 4)
    if found < 0:
        return []
    end = length - len(tail) + found
    return [(end, _END.unpack_from(tail, found)[5]), *_large_directories(stream, end)]


def _large_directories(stream: IO[bytes], end: int) -> list[tuple[int, int]]:
    """Those of zip64, if its locator stands before the end record: zipfile looks before the locator or where it says."""
    locator = _read_at(stream, end - _LOCATOR.size, _LOCATOR.size)
    if not locator.startswith(b"PK\6\7"):
        return []
    places = {end - _LOCATOR.size - _END_64.size, _LOCATOR.unpack(locator)[2]}
    records = ((place, _read_at(stream, place, _END_64.size)) for place in places if place < end)
    return [(place, _END_64.unpack(record)[8]) for place, record in records if record.startswith(b"PK\6\6")]


def _read_at(stream: IO[bytes], place: int, size: int) -> bytes:
    """So many bytes, or none."""
    if place < 0:
        return b""
    stream.seek(place)
    data = stream.read(size)
    return data if len(data) == size else b""


def _count(stream: IO[bytes], end: int, size: int, most: int) -> int:
    """Walk from entry to entry, a piece of the directory at a time."""
    stream.seek(max(0, end - size))
    size = min(size, end)
    count, data, place, left = 0, b"", 0, size
    while count <= most:
        if len(data) - place < _ENTRY.size + 3 * _LONGEST_COMMENT and left > 0:
            fresh = stream.read(min(left, _AT_ONCE))
            left = left - len(fresh) if fresh else 0
            data, place = data[place:] + fresh, 0
            continue
        if len(data) - place < _ENTRY.size:
            break
        signature, name, extra, comment = _ENTRY.unpack_from(data, place)
        if signature != b"PK\1\2":
            break
        place += _ENTRY.size + name + extra + comment
        count += 1
    return count
