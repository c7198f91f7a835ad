"""Whether a file of a known format has its end: one that is still being written, or was cut off, cannot be loaded.

    zip            .pt, .pth and .ckpt of torch, .keras, .npz: ends with the directory of what is in it
    safetensors    the header at its beginning says how long the file is
    HDF5           .h5, .hdf5: so does the superblock, which is right once the file is flushed or closed
    NumPy          .npy: so does the header

Of any other file nothing is known, and it passes. Only its beginning and its end are read.
"""

from __future__ import annotations

import ast
import json
import math
import os
import re
import struct
from pathlib import Path
from typing import BinaryIO

_ZIP = b"PK\x03\x04"
_ZIP_END = b"PK\x05\x06"
_ZIP_END_BYTES = 22
_LONGEST_COMMENT = 1 << 16
_HDF5 = b"\x89HDF\r\n\x1a\n"
_NUMPY = b"\x93NUMPY"
_LONGEST_HEADER = 100 << 20
_MODELS = (".pt", ".pth", ".ckpt", ".safetensors", ".h5", ".hdf5", ".keras", ".npz", ".npy")
_ITEM = re.compile(r"[<>|=]?[biufcSV](\d+)")


def cut_off(path: Path) -> bool:
    """Whether the file is of a known format and not all there."""
    try:
        with open(path, "rb", opener=_at_once) as stream:
            return _cut_off(stream, path.suffix.lower(), os.fstat(stream.fileno()).st_size)
    except (OSError, ValueError, KeyError, TypeError, SyntaxError, struct.error):
        return False  # it cannot be read, or is not what it seems to be: nothing is known of it


def holds_a_model(name: str) -> bool:
    """Whether a file of that name is one of these formats, and surely no log."""
    return Path(name).suffix.lower() in _MODELS


def _at_once(path: str, flags: int) -> int:
    """Open without waiting, should the program put a pipe in the place of its file."""
    return os.open(path, flags | os.O_NONBLOCK)


def _cut_off(stream: BinaryIO, suffix: str, size: int) -> bool:
    if size == 0:
        return suffix in _MODELS
    start = stream.read(8)
    if suffix == ".safetensors":
        return _safetensors_bytes(stream, start) > size
    if start.startswith(_ZIP):
        return not _has_zip_end(stream, size)
    if start == _HDF5:
        return _hdf5_bytes(stream) != size
    if start.startswith(_NUMPY):
        return _numpy_bytes(stream) > size
    return False


def _has_zip_end(stream: BinaryIO, size: int) -> bool:
    """Whether the directory is there, and lies right before the record that ends the file."""
    tail = min(size, _LONGEST_COMMENT + _ZIP_END_BYTES)
    stream.seek(size - tail)
    data = stream.read(tail)
    place = data.rfind(_ZIP_END)
    if place < 0 or len(data) - place < _ZIP_END_BYTES:
        return False
    directory_bytes, directory_at, comment = struct.unpack("<IIH", data[place + 12 : place + _ZIP_END_BYTES])
    at = size - tail + place
    whole = at + _ZIP_END_BYTES + comment <= size
    return bool(whole and (directory_at == 0xFFFFFFFF or directory_at + directory_bytes <= at))


def _safetensors_bytes(stream: BinaryIO, start: bytes) -> float:
    """Eight bytes of length, the header, and the tensors that it names."""
    if len(start) < 8:
        return math.inf
    (length,) = struct.unpack("<Q", start)
    if length > _LONGEST_HEADER:
        raise ValueError("no header is that long")
    text = stream.read(length)
    if len(text) < length:
        return math.inf
    ends = [one["data_offsets"][1] for name, one in json.loads(text).items() if name != "__metadata__"]
    return float(8 + length + max(ends, default=0))


def _hdf5_bytes(stream: BinaryIO) -> int:
    """The end of the file by its superblock (HDF5 File Format Specification, II.A)."""
    head = stream.read(88).ljust(88, b"\0")
    version = head[0]
    if version < 2:  # after 16 or 20 more bytes of settings: base address, free space, end of file
        offset_bytes, place = head[5], 16 + (4 if version else 0) + 2 * head[5]
    else:  # base address, extension, end of file
        offset_bytes, place = head[1], 4 + 2 * head[1]
    return int.from_bytes(head[place : place + offset_bytes], "little")


def _numpy_bytes(stream: BinaryIO) -> float:
    """The header and as many items as its shape says."""
    stream.seek(len(_NUMPY))
    width = 2 if stream.read(2)[:1] == b"\x01" else 4
    length = int.from_bytes(stream.read(width), "little")
    text = stream.read(length)
    if not text or len(text) < length:
        return math.inf
    header = ast.literal_eval(text.decode("latin-1"))
    item = _ITEM.fullmatch(header["descr"])
    if item is None:  # of another kind, whose size is not in its name
        return 0.0
    return float(stream.tell() + int(item[1]) * math.prod(header["shape"]))
