"""Code and data that were sent: streamed to disk, unpacked beside, and put in place whole under their hash.

uploads/
  incoming/           what is being received, or taken away; left-overs of a killed server are cleared away
  lock                shared by those who put something in place, alone for whoever takes something away
  <sha256>/content/   what was sent, unpacked; jobs run from copies of it
  <sha256>/about.json its name and size
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import AsyncIterable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from mlcd.errors import NotFoundError, UserError
from mlcd.web.unpacking import safe_name, unpack

STALE_SECONDS = 24 * 3600.0
_ID = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Received:
    """What has arrived."""

    id: str
    name: str
    bytes: int


@dataclass(frozen=True)
class Contents:
    """What an upload holds, as far as someone needs to see it who chooses a program in it."""

    files: int
    bytes: int
    folders: tuple[str, ...]  # at the top
    scripts: tuple[str, ...]  # Python files, the shortest paths first


class Uploads:
    """The folder of all uploads."""

    def __init__(self, root: Path, most_bytes: int, most_unpacked: int) -> None:
        self._root = root
        self._incoming = root / "incoming"
        self._most_bytes = most_bytes
        self._most_unpacked = most_unpacked

    async def receive(
        self, name: str, chunks: AsyncIterable[bytes], book: Callable[[Received], None]
    ) -> Received:
        """Take a stream in and have it booked; it is there for good once this returns, or not at all."""
        name = safe_name(name)
        self._incoming.mkdir(parents=True, exist_ok=True, mode=0o700)
        work = self._incoming / secrets.token_hex(8)
        work.mkdir(mode=0o700)
        try:
            digest, size = await self._write(work / "sent", chunks)
            received = Received(digest, name, size)
            await run_in_threadpool(self._keep, work, received, book)
        finally:
            await run_in_threadpool(shutil.rmtree, work, ignore_errors=True)
        return received

    def folder(self, upload_id: str) -> Path:
        """Where the content of an upload lies; or NotFoundError."""
        folder = self._root / upload_id / "content"
        if not _ID.fullmatch(upload_id) or not folder.is_dir():
            raise NotFoundError(f"There is no upload '{upload_id[:80]}'.", "Send it again.")
        return folder

    def contents(self, upload_id: str) -> Contents:
        """What is in it."""
        folder = self.folder(upload_id)
        files = [path for path in folder.rglob("*") if path.is_file()]
        scripts = sorted(
            (path.relative_to(folder).as_posix() for path in files if path.suffix == ".py"),
            key=lambda script: (script.count("/"), script),
        )
        return Contents(
            files=len(files),
            bytes=sum(path.stat().st_size for path in files),
            folders=tuple(sorted(path.name for path in folder.iterdir() if path.is_dir()))[:200],
            scripts=tuple(scripts[:200]),
        )

    def clear_stale(self) -> None:
        """Remove what a killed server had not finished receiving or taking away."""
        if self._incoming.is_dir():
            for work in self._incoming.iterdir():
                if time.time() - _changed_at(work) > STALE_SECONDS:
                    shutil.rmtree(work, ignore_errors=True)

    def ids(self, before: float) -> set[str]:
        """What lies here and was put in place before that."""
        if not self._root.is_dir():
            return set()
        folders = (place for place in self._root.iterdir() if _ID.fullmatch(place.name))
        return {place.name for place in folders if place.stat().st_mtime < before}

    def take_away(self, upload_id: str, forget: Callable[[], bool]) -> bool:
        """Remove an upload once it is forgotten; not now, if it cannot be or somebody is sending something."""
        gone = self._incoming / secrets.token_hex(8)
        with self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB) as alone:
            if not alone or not forget():
                return False
            with suppress(FileNotFoundError):
                (self._root / upload_id).rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
        return True

    @contextmanager
    def _lock(self, how: int) -> Iterator[bool]:
        """Between all processes that share the folder; False: it is taken, and we do not wait."""
        self._incoming.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self._root / "lock").open("w") as file:
            try:
                fcntl.flock(file, how)
            except BlockingIOError:
                yield False
            else:
                yield True  # closing the file lets go

    async def _write(self, file: Path, chunks: AsyncIterable[bytes]) -> tuple[str, int]:
        digest, size = hashlib.sha256(), 0
        with file.open("wb") as stream:
            async for chunk in chunks:
                size += len(chunk)
                if size > self._most_bytes:
                    raise UserError(f"This is more than the {self._most_bytes:,} bytes that may be sent.")
                digest.update(chunk)
                await run_in_threadpool(stream.write, chunk)
        if size == 0:
            raise UserError("The upload is empty.")
        return digest.hexdigest(), size

    def _keep(self, work: Path, received: Received, book: Callable[[Received], None]) -> None:
        """In place and in the books, while nobody takes anything away."""
        with self._lock(fcntl.LOCK_SH):
            self._put(work, received)
            book(received)

    def _put(self, work: Path, received: Received) -> None:
        place = self._root / received.id
        if place.is_dir():
            return
        made = work / "made"
        unpack(work / "sent", received.name, made / "content", self._most_unpacked)
        (made / "about.json").write_text(json.dumps({"name": received.name, "bytes": received.bytes}))
        _sync(made)
        try:
            made.rename(place)
        except OSError:
            if not place.is_dir():  # else somebody sent the same at the same time
                raise


def _changed_at(folder: Path) -> float:
    """When something was last written there; a long upload writes all the time."""
    times = [0.0]
    for place in (folder, folder / "sent"):
        with suppress(FileNotFoundError):  # it may be finished at this moment
            times.append(place.stat().st_mtime)
    return max(times)


def _sync(folder: Path) -> None:
    """On the disk before the database speaks of it."""
    for root, _, files in os.walk(folder):
        for name in files:
            with Path(root, name).open("rb") as stream:
                os.fsync(stream.fileno())
