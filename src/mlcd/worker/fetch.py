"""Fetches data from a bucket to where the program reads it, before `setup`: `python3 -m mlcd.worker.fetch`.

$MLCD_FETCH, a secret, is made by pack(): each file with its path, an address that is valid for some days, its size and its
version. Of a mount that is divided, each node that trains fetches its own part, and removes what a task before has left of the others'. A
cache on the machine keeps what was fetched, so that the probes of a search fetch it once; large files are linked from there, small
ones copied.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

VARIABLE = "MLCD_FETCH"
OWN_MACHINE = "MLCD_OWN_MACHINE"  # set where the machine was rented for this: files may lie anywhere
COMMAND = "python3 -m mlcd.worker.fetch || exit 1"
LINK_BYTES = 2**28  # a file or mount this large is linked rather than copied
_AT_ONCE = 8
_TRIES = 5
_CHUNK_BYTES = 1 << 20
_TIMEOUT_SECONDS = 60.0  # without a byte


class BucketFile(NamedTuple):
    """One file of a bucket."""

    path: str  # where to, in the working copy or absolute
    url: str
    bytes: int
    version: str  # changes with the content
    divided: str = ""  # the mount of whose files each node fetches its own part; empty: all of them


def pack(files: Sequence[BucketFile]) -> str:
    """As the value of an environment variable."""
    return base64.b64encode(zlib.compress(json.dumps(files).encode(), 9)).decode()


def unpack(text: str) -> list[BucketFile]:
    """The same back."""
    return [BucketFile(*one) for one in json.loads(zlib.decompress(base64.b64decode(text)))]


def main(environ: Mapping[str, str] = os.environ) -> int:
    """Fetch all files, several at once. Errors do not show the address, which is a secret."""
    began, everything = time.monotonic(), unpack(environ[VARIABLE])
    files = own_part(everything, *_place(environ))
    astray = next((one.path for one in everything if _outside(one.path)), None)
    if astray is not None and not environ.get(OWN_MACHINE):
        _log(f"file_mounts: {astray} is outside the working copy; on this cloud mount to a relative path")
        return 1
    cache = _cache(environ)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        failures = [why for why in pool.map(lambda one: _fetch(one, cache), files) if why]
    failures += [why for one in set(everything).difference(files) if (why := _remove(one))]
    if failures:
        _log(f"could not fetch {len(failures)} of {len(files)} files from the bucket: {failures[0]}")
        return 1
    mebibytes, seconds = sum(one.bytes for one in files) / 2**20, time.monotonic() - began
    _log(f"fetched {len(files)} files ({mebibytes:,.1f} MiB) from the bucket in {seconds:.1f} s")
    return 0


def own_part(files: Sequence[BucketFile], node: int, nodes: int) -> list[BucketFile]:
    """What a node fetches: of each divided mount every n-th file, beginning with its own number."""
    order: dict[str, int] = {}
    mine = []
    for one in sorted(files):
        order[one.divided] = turn = order.get(one.divided, -1) + 1
        if not one.divided or turn % nodes == node:
            mine.append(one)
    return mine


def _place(environ: Mapping[str, str]) -> tuple[int, int]:
    """This node's number among those that train; parameter servers come last, and have no part in the data."""
    nodes = int(environ.get("SKYPILOT_NUM_NODES") or 1) - int(environ.get("MLCD_SERVERS") or 0)
    return int(environ.get("NODE_RANK") or 0), max(1, nodes)


def _outside(path: str) -> bool:
    return path.startswith(("/", "~")) or ".." in Path(path).parts


def _log(words: str) -> None:
    sys.stdout.write(f"[mlcd] {words}\n")


def _cache(environ: Mapping[str, str]) -> Path:
    """Where what was fetched stays on this machine."""
    home = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME") or tempfile.gettempdir(), ".cache"))
    for place in (Path(home, "mlcd", "buckets"), cache_without_home()):
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        return place
    raise OSError("no cache folder can be written")


def cache_without_home() -> Path:
    """The cache where the home cannot be written to, as in a function."""
    return Path(tempfile.gettempdir(), "cache", "mlcd", "buckets")


def _fetch(one: BucketFile, cache: Path) -> str:
    """Fetch one file to its path; the error message where that fails, else ''."""
    name = hashlib.sha256(f"{one.url.partition('?')[0]} {one.version}".encode()).hexdigest()[:32]
    cached, place = cache / name, Path(os.path.expanduser(one.path))  # noqa: PTH111  # pathlib asks for a home even of an absolute path
    try:
        with (cache / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the nodes of one machine fetch it once
            if not cached.is_file() or cached.stat().st_size != one.bytes:
                _download(one, cached)
        _make_folder(place.parent)
        place.unlink(missing_ok=True)
        if one.bytes > LINK_BYTES:
            place.symlink_to(cached)
        else:
            shutil.copyfile(cached, place)
    except (OSError, EOFError) as error:
        return f"{one.path}: {_message(error)}"
    return ""


def _remove(one: BucketFile) -> str:
    """Remove another node's file, if it was left here; the error message where that fails, else ''."""
    try:
        Path(os.path.expanduser(one.path)).unlink(missing_ok=True)  # noqa: PTH111  # as in _fetch
    except OSError as error:
        return f"{one.path}: {_message(error)}"
    return ""


def _make_folder(folder: Path) -> None:
    """Make it, with root's help on a machine of one's own: `/data` belongs to nobody else there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except PermissionError:
        script = 'mkdir -p "$1" && chown "$2" "$1"'
        line = ("sudo", "-n", "sh", "-c", script, "sh", str(folder), str(os.getuid()))
        if subprocess.run(line, capture_output=True, check=False).returncode:
            raise


def _download(one: BucketFile, cached: Path) -> None:
    part = cached.with_suffix(".part")
    for attempt in range(1, _TRIES + 1):
        try:
            _download_once(one, part)
        except (OSError, EOFError) as error:
            refused = isinstance(error, urllib.error.HTTPError) and error.code in (403, 404)
            if refused or attempt == _TRIES:
                raise
            time.sleep(0.5 * 2**attempt)
        else:
            part.replace(cached)
            return


def _download_once(one: BucketFile, part: Path) -> None:
    with urllib.request.urlopen(one.url, timeout=_TIMEOUT_SECONDS) as answer, part.open("wb") as file:  # noqa: S310  # signed by us
        shutil.copyfileobj(answer, file, _CHUNK_BYTES)
    if part.stat().st_size != one.bytes:
        raise EOFError(f"{part.stat().st_size:,} of {one.bytes:,} bytes received")


def _message(error: BaseException) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the store answers {error.code} {error.reason}"
    return str(error) or type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
