"""One poller for each thing that is followed, any number of readers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from mlcd.errors import StoreError
from mlcd.web import streams
from mlcd.web.streams import Hub, Piece, Update


class Growing:
    """A thing to which something happens each time it is looked at from its end."""

    def __init__(self, most: int) -> None:
        self.asked: list[int] = []
        self.most = most
        self.known = 3

    def __call__(self, after: int) -> Update:
        self.asked.append(after)
        if after == self.known and self.known < self.most:
            self.known += 1
        pieces = [Piece(n - 1, n, b"id: %d\n\n" % n) for n in range(after + 1, self.known + 1)]
        return Update(pieces, b"view %d\n\n" % self.known, over=self.known == self.most)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(streams, "REST_SECONDS", 0.01)
    monkeypatch.setattr(streams, "BEAT_SECONDS", 0.05)


async def ids(chunks: AsyncIterator[bytes]) -> list[int]:
    return [int(chunk[4:]) async for chunk in chunks if chunk.startswith(b"id: ")]


async def many_readers(count: int = 1000) -> tuple[Growing, list[list[int]]]:
    hub, source = Hub(), Growing(8)
    read = await asyncio.gather(*(ids(hub.follow("x", source, n % 8, ends=True)) for n in range(count)))
    assert hub.readers == 0
    return source, read


def test_a_thousand_readers_all_get_everything_once_and_in_order() -> None:
    source, read = asyncio.run(many_readers())
    assert all(seen == list(range(n % 8 + 1, 9)) for n, seen in enumerate(read))
    assert len(source.asked) < 1000 + 100, "each reader asks once for what it missed; then one poller asks for all"


def test_a_reader_who_lags_is_given_what_is_no_longer_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "KEPT", 2)

    async def lag() -> list[int]:
        hub, source = Hub(), Growing(40)
        slow = hub.follow("x", source, 0, ends=True)
        seen: list[int] = []
        async for chunk in slow:
            if chunk.startswith(b"id: "):
                seen.append(int(chunk[4:]))
                await asyncio.sleep(0.03)
        return seen

    assert asyncio.run(lag()) == list(range(1, 41))


def test_a_database_that_is_away_for_a_moment_ends_no_stream() -> None:
    async def follow() -> list[int]:
        source = Growing(6)
        fails = iter([False, True, True] + [False] * 1000)

        def shaky(after: int) -> Update:
            if next(fails):
                raise StoreError("gone for a moment")
            return source(after)

        return await ids(Hub().follow("x", shaky, 0, ends=True))

    assert asyncio.run(follow()) == [1, 2, 3, 4, 5, 6]


def test_a_quiet_line_beats_and_a_closed_hub_sends_readers_home() -> None:
    async def listen() -> list[bytes]:
        hub = Hub()
        chunks: list[bytes] = []
        async for chunk in hub.follow("x", lambda _after: Update(), 0, ends=False):
            chunks.append(chunk)
            if chunk.startswith(b": beat"):
                hub.close()
        return chunks

    assert asyncio.run(listen())[-1] == b": beat\n\n"
