"""Server-sent events: one poller for each thing that is followed, any number of readers.

A source is asked what is new after a number; the answer is encoded once and handed to every reader of that
thing. A reader who comes late, or comes back with Last-Event-ID, is first given what it missed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from starlette.responses import StreamingResponse

from mlcd.errors import MlcdError
from mlcd.web.serialize import encode

log = logging.getLogger("mlcd.web")

KEPT = 500  # newest pieces in memory, for readers who lag a little
BEAT_SECONDS = 15.0  # a comment, so that proxies keep the line open and the dead are noticed
POLL_SECONDS = 0.5
MOST_POLLS = 100.0  # a second, of all that is followed
REST_SECONDS = 5.0  # nothing happens to a thing at rest, but it may be taken up again
SHUT = b"event: over\ndata: {}\n\n"


@dataclass(frozen=True)
class Piece:
    """One event, encoded."""

    before: int  # the number that it follows
    number: int
    chunk: bytes


@dataclass(frozen=True)
class Update:
    """What is new of a thing."""

    pieces: list[Piece] = field(default_factory=list)
    snapshot: bytes = b""  # how it stands, encoded; empty: it has no snapshot
    over: bool = False  # nothing more is to come for now


Source = Callable[[int], Update]  # what is new after that number; called in a thread


def event(kind: str, data: object, number: int | None = None) -> bytes:
    """One event as the wire has it."""
    head = f"id: {number}\n" if number is not None else ""
    return f"{head}event: {kind}\ndata: ".encode() + encode(data) + b"\n\n"


def stream_response(chunks: AsyncIterator[bytes]) -> StreamingResponse:
    """The events as an answer that no proxy holds back."""
    headers = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}
    return StreamingResponse(chunks, media_type="text/event-stream", headers=headers)


class Topic:
    """A thing that is followed."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.readers = 0
        self.task: asyncio.Task[None] | None = None
        self.pieces: deque[Piece] = deque(maxlen=KEPT)
        self.last = 0  # number of the newest piece
        self.snapshot = b""
        self.turn = 0  # grows with every change of the snapshot
        self.over = False
        self.changed = asyncio.Event()

    def take(self, news: Update) -> None:
        """Keep what is new and wake the readers."""
        self.pieces.extend(news.pieces)
        self.last = news.pieces[-1].number if news.pieces else self.last
        fresh = bool(news.snapshot) and news.snapshot != self.snapshot
        self.turn += fresh
        self.snapshot = news.snapshot or self.snapshot
        woken = bool(news.pieces) or fresh or news.over != self.over
        self.over = news.over
        if woken:
            self.wake()

    def wake(self) -> None:
        """Let every waiting reader look."""
        self.changed.set()
        self.changed = asyncio.Event()

    def covers(self, after: int) -> bool:
        """Whether everything after that number is still in memory."""
        return after >= self.last or (bool(self.pieces) and self.pieces[0].before <= after)


class Hub:
    """All that is followed from this process."""

    def __init__(self) -> None:
        self._topics: dict[str, Topic] = {}
        self.closed = False

    @property
    def readers(self) -> int:
        """How many are reading now."""
        return sum(topic.readers for topic in self._topics.values())

    def close(self) -> None:
        """Send every reader home."""
        self.closed = True
        for topic in self._topics.values():
            topic.wake()

    async def follow(self, key: str, source: Source, after: int, ends: bool) -> AsyncIterator[bytes]:
        """What a reader is sent, from after that number; if it ends, until the thing is over."""
        topic = self._topics.get(key)
        if topic is None:
            topic = self._topics[key] = Topic(source)
        topic.readers += 1
        try:
            async for chunk in self._read(topic, after, ends):
                yield chunk
        finally:
            self._leave(key, topic)

    async def _read(self, topic: Topic, after: int, ends: bool) -> AsyncIterator[bytes]:
        yield b"retry: 2000\n\n"
        first = await asyncio.to_thread(topic.source, after)
        for piece in first.pieces:
            after = piece.number
            yield piece.chunk
        if topic.task is None:
            topic.last = after
            topic.take(first)
            topic.task = asyncio.create_task(self._poll(topic))
        turn, told_over = -1, False
        while not self.closed:
            changed = topic.changed  # before looking: a change while we write is not missed
            missed, after = await self._missed(topic, after)
            for chunk in missed:
                yield chunk
            if topic.turn != turn and topic.snapshot:
                turn = topic.turn
                yield topic.snapshot
            over = topic.over and after >= topic.last
            if over and not told_over:
                yield SHUT
                if ends:
                    return
            told_over = over
            try:
                await asyncio.wait_for(changed.wait(), BEAT_SECONDS)
            except TimeoutError:
                yield b": beat\n\n"

    async def _missed(self, topic: Topic, after: int) -> tuple[list[bytes], int]:
        if topic.covers(after):
            found = [piece for piece in topic.pieces if piece.number > after]
        else:
            found = (await asyncio.to_thread(topic.source, after)).pieces
        return [piece.chunk for piece in found], found[-1].number if found else after

    async def _poll(self, topic: Topic) -> None:
        while topic.readers and not self.closed:
            await asyncio.sleep(self._pause(topic))
            try:
                topic.take(await asyncio.to_thread(topic.source, topic.last))
            except MlcdError as error:  # the database is away for a moment; the readers wait
                log.warning("cannot read what is followed: %s", error.message)

    def _pause(self, topic: Topic) -> float:
        """The more is followed, the less often each is looked at: following costs no more than so much."""
        return max(REST_SECONDS if topic.over else POLL_SECONDS, len(self._topics) / MOST_POLLS)

    def _leave(self, key: str, topic: Topic) -> None:
        topic.readers -= 1
        if topic.readers == 0:
            if topic.task is not None:
                topic.task.cancel()
            self._topics.pop(key, None)
