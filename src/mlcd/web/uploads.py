"""Code and data that were sent: streamed to disk, unpacked beside, and put in place whole.

An upload is known by who sent it, under which name and with which content: nobody gets what somebody else sent.

uploads/
  incoming/           what is being received, or taken away; left-overs of a killed server are cleared away
  turn-<sender>       held by whoever puts something of this sender in place
  lock                shared by those who put something in place, alone for whoever takes something away
  <id>/content/       what was sent, unpacked; jobs run from copies of it
  <id>/about.json     its name, its size, and what it takes of the disk
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from mlcd.errors import NotFoundError, TooManyRequestsError, UserError
from mlcd.web.archives import safe_name, unpack

MOST_AT_ONCE = 4  # uploads of one account
STALE_SECONDS = 24 * 3600.0
_BLOCK_BYTES = 4096
_ID = re.compile(r"[0-9a-f]{64}")


class QuotaError(UserError):
    """Somebody's uploads take up all that they may."""


@dataclass(frozen=True)
class Sender:
    """Who sends something, what of theirs is here already, and how much may be."""

    name: str
    ids: Callable[[], Iterable[str]]  # of their uploads
    most_bytes: int | None = None  # None: any amount


@dataclass(frozen=True)
class PendingUpload:
    """Something on its way; what it holds of its sender's quota counts until it is in place."""

    sender: Sender
    hold: Callable[[int], None]  # so many bytes in all, or QuotaError


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
        self._arriving_bytes: dict[str, list[list[int]]] = {}  # sender → of each request
        self._counting = threading.Lock()

    async def receive(
        self, sender: Sender, name: str, chunks: AsyncIterable[bytes], record: Callable[[Received], None]
    ) -> Received:
        """Receive a stream and record it; it is stored when this returns, or not at all."""
        async with self.arriving(sender) as arrival:
            return await self.take(arrival, name, chunks, record)

    @asynccontextmanager
    async def arriving(self, sender: Sender, announced: int = 0) -> AsyncIterator[PendingUpload]:
        """While somebody sends so many bytes; refused before the first if that is more than they may send."""
        used = await run_in_threadpool(self.used_bytes, sender)
        with self._arriving(sender, used) as hold:
            hold(announced)
            yield PendingUpload(sender, hold)

    async def take(
        self,
        arrival: PendingUpload,
        name: str,
        chunks: AsyncIterable[bytes],
        record: Callable[[Received], None],
    ) -> Received:
        """Take in what is arriving, as `receive` does."""
        name = safe_name(name)
        self._incoming.mkdir(parents=True, exist_ok=True, mode=0o700)
        work = self._incoming / secrets.token_hex(8)
        work.mkdir(mode=0o700)
        try:
            digest, size = await self._write(work / "sent", chunks, arrival.hold)
            received = Received(upload_id(arrival.sender.name, name, digest), name, size)
            await run_in_threadpool(self._keep, work, arrival.sender, received, record)
        finally:
            await run_in_threadpool(shutil.rmtree, work, ignore_errors=True)
        return received

    def used_bytes(self, sender: Sender) -> int:
        """What their uploads take of the disk."""
        return 0 if sender.most_bytes is None else sum(self._kept_bytes(one) for one in sender.ids())

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

    async def _write(self, file: Path, chunks: AsyncIterable[bytes], hold: Callable[[int], None]) -> tuple[str, int]:
        digest, size = hashlib.sha256(), 0
        with file.open("wb") as stream:
            async for chunk in chunks:
                size += len(chunk)
                if size > self._most_bytes:
                    raise UserError(f"This is more than the {self._most_bytes:,} bytes that may be sent.")
                hold(size)
                digest.update(chunk)
                await run_in_threadpool(stream.write, chunk)
        if size == 0:
            raise UserError("The upload is empty.")
        return digest.hexdigest(), size

    @contextmanager
    def _arriving(self, sender: Sender, used: int) -> Iterator[Callable[[int], None]]:
        """Holds what a sender has on the way to this process, by all requests together, until it is in place."""
        mine = [0]
        with self._counting:
            all_of_them = self._arriving_bytes.setdefault(sender.name, [])
            _refuse_many(sender, len(all_of_them))
            all_of_them.append(mine)

        def hold(size: int) -> None:
            with self._counting:
                mine[0] = max(mine[0], size)
                total = sum(bytes_ for (bytes_,) in all_of_them)
            _refuse_beyond(sender, used + total)

        try:
            yield hold
        finally:
            with self._counting:
                all_of_them[:] = [each for each in all_of_them if each is not mine]

    def _keep(self, work: Path, sender: Sender, received: Received, record: Callable[[Received], None]) -> None:
        """Store and record it, while nobody deletes anything and the sender stores nothing else."""
        with self._lock(fcntl.LOCK_SH), self._turn_of(sender):
            self._put(work, sender, received)
            record(received)

    def _put(self, work: Path, sender: Sender, received: Received) -> None:
        place = self._root / received.id
        if place.is_dir():
            return
        made = work / "made"
        unpack(work / "sent", received.name, made / "content", self._most_unpacked)
        kept = _disk_bytes(made)
        _refuse_beyond(sender, self.used_bytes(sender) + kept)
        about = {"name": received.name, "bytes": received.bytes, "kept": kept}
        (made / "about.json").write_text(json.dumps(about))
        _sync(made)
        made.rename(place)

    @contextmanager
    def _turn_of(self, sender: Sender) -> Iterator[None]:
        """One at a time for each sender, among all processes: or two at once would pass the quota together."""
        name = hashlib.sha256(sender.name.encode()).hexdigest()[:16]
        with (self._root / f"turn-{name}").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _kept_bytes(self, upload_id: str) -> int:
        try:
            about = json.loads((self._root / upload_id / "about.json").read_text())
        except FileNotFoundError:  # it is being taken away
            return 0
        return int(about.get("kept", about["bytes"]))


def upload_id(sender: str, name: str, digest: str) -> str:
    """What an upload is known by: who sent it, its name, and the hash of its content."""
    return hashlib.sha256(f"{sender}\n{name}\n{digest}".encode()).hexdigest()


def _refuse_many(sender: Sender, arriving: int) -> None:
    """Each takes a thread of the server while it waits for its turn."""
    if sender.most_bytes is not None and arriving >= MOST_AT_ONCE:
        raise TooManyRequestsError(f"You are sending {arriving} uploads already.", "Wait until one of them is done.")


def _refuse_beyond(sender: Sender, size: int) -> None:
    if sender.most_bytes is not None and size > sender.most_bytes:
        raise QuotaError(
            f"Your uploads may take {sender.most_bytes / 2**30:,.1f} GiB, and this would be more.",
            "Those that no job uses are taken away after a while. An admin may allow more: --upload-quota-gib.",
        )


def _disk_bytes(folder: Path) -> int:
    """What a folder takes: every file and folder at least a block."""
    return sum(max(_BLOCK_BYTES, path.stat().st_size) for path in folder.rglob("*"))


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
