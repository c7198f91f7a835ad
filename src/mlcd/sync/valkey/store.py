"""The parameter store in Redis or Valkey servers, reachable from wherever functions run.

    <root>:generation                                        the newest that was joined
    <root>:<generation>:piece:<number>:<source>:<receiver>   a parcel for one worker
    <root>:<generation>:result:<number>:<source>             a parcel for all
    <root>:<generation>:inbox:<rank>                         a stream: the flags of what has come for this worker
    <root>:<generation>:notice:<rank>                        a notice, which expires
    <root>:<generation>:member:<rank>                        this worker has been here

The root is mlcd:<task>:<group>, so that many tasks may share servers. A parcel is written first, then its flag, in one go; so
a flag that is seen stands for a parcel that is there. Flags are read, not taken: a worker that is restarted reads them again.
Everything expires, in case that nobody removes it.

With several servers, what a worker aggregates is all on one of them: its rank modulo their number. To each server a worker
has three connections, so that nothing waits behind something else: parcels go up on one, come down on another, and the
third sleeps in the server until a flag comes.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from mlcd.sync.errors import StaleWorker, StoreLost
from mlcd.sync.store import (
    PIECE,
    RESULT,
    SLOTS,
    Buffers,
    Bytes,
    Member,
    Timeout,
    already_joined,
    largest_parcel,
)
from mlcd.sync.timing import UL_AGGR, UL_SHARD, OverlapTimer, StepTimes
from mlcd.sync.valkey.connection import SERVER_TIMEOUT_S, Connection, Pipeline, Reply
from mlcd.sync.valkey.inbox import FLAG, LIFETIME_S, Inbox, Server
from mlcd.sync.valkey.keys import key_root, remove_keys
from mlcd.sync.valkey.selector import PipelineSelector

_INLINE_BYTES = 1024  # what is not larger travels with its flag
_RENEW_S = LIFETIME_S / 6
_OWN = ("inbox", "notice", "member")  # keys of each worker


class ValkeyStore:
    """Parcels as values, flags as entries of streams."""

    buffers: Buffers | None = None

    def __init__(self, url: str, member: Member) -> None:
        self._rank, self._world_size = member.rank, member.world_size
        self._generation = member.generation
        self._root = key_root(member.task, member.name)
        self._keys = f"{self._root}:{member.generation}"
        urls = [each.strip() for each in url.split(",")]
        self._control = Connection(urls[0])
        self._enter(urls, member.position)
        self._servers = [Server(upload=Pipeline(each), download=Pipeline(each), flags=Pipeline(each)) for each in urls]
        self._pipelines = PipelineSelector(
            pipeline for server in self._servers for pipeline in (server.upload, server.download, server.flags)
        )
        self.parcel_bytes = largest_parcel(member.world_size, len(urls))
        self._timer = OverlapTimer()
        self._inbox = Inbox(self._servers, self._keys, self._rank, member.position, self._timer)
        self._written: deque[tuple[int, Server, str]] = deque()
        self._unanswered = 0  # parcels that the servers have not confirmed yet
        self._renewed_s = time.monotonic()

    @property
    def times(self) -> StepTimes:
        return self._timer.times

    def send(self, number: int, pieces: Mapping[int, Bytes]) -> None:
        self._remove_read(number)
        after = sorted(pieces, key=lambda receiver: (receiver - self._rank) % self._world_size)
        for receiver in after:  # everybody begins with another, so that nobody gets all at once
            key = f"{self._keys}:piece:{number}:{self._rank}:{receiver}"
            self._offer(self._inbox.server_of(receiver), PIECE, number, key, pieces[receiver], [receiver])
        self._pipelines.send()

    def publish(self, number: int, result: Bytes) -> None:
        self._remove_read(number)
        others = [rank for rank in range(self._world_size) if rank != self._rank]
        key = f"{self._keys}:result:{number}:{self._rank}"
        self._offer(self._inbox.server_of(self._rank), RESULT, number, key, result, others)
        self._pipelines.send()

    def expect(self, kind: int, number: int, sources: Sequence[int], into: Sequence[Bytes]) -> None:
        for source, place in zip(sources, into, strict=True):
            self._inbox.expect((kind, number, source), place)

    def receive(
        self, kind: int, number: int, sources: Sequence[int], into: Sequence[Bytes], timeout: Timeout
    ) -> Iterator[Bytes]:
        self.expect(kind, number, sources, into)
        parcels = [(kind, number, source) for source in sources]
        for parcel in parcels:
            while not self._inbox.has(parcel):
                if not self._pipelines.poll(timeout.interval_s):
                    timeout.check([each[2] for each in parcels if not self._inbox.has(each)])
            yield self._inbox.take(parcel)

    def flush(self) -> None:
        while self._unanswered:
            if not self._pipelines.poll(SERVER_TIMEOUT_S):
                raise StoreLost(f"The parameter store has not answered for {SERVER_TIMEOUT_S:g} s.")

    def post(self, notice: str, seconds: float) -> None:
        key = f"{self._keys}:notice:{self._rank}"
        self._control.ask("SET", key, notice, "PX", max(1, int(seconds * 1000)))

    def notices(self) -> dict[int, str]:
        found = self._control.ask("MGET", *(f"{self._keys}:notice:{rank}" for rank in range(self._world_size)))
        return {rank: raw.decode() for rank, raw in enumerate(found) if raw is not None}

    def newest_generation(self) -> int:
        return int(float(self._control.ask("ZSCORE", f"{self._root}:generation", "newest") or 0))

    def close(self, orderly: bool) -> None:
        with contextlib.suppress(StoreLost):  # what is to be removed is gone
            if orderly:
                self._remove_own()
        self._pipelines.close()
        self._control.close()

    def _enter(self, urls: Sequence[str], position: int) -> None:
        before = self.newest_generation()
        self._control.ask("ZADD", f"{self._root}:generation", "GT", self._generation, "newest")
        self._control.ask("EXPIRE", f"{self._root}:generation", LIFETIME_S)
        if before > self._generation:
            raise StaleWorker(f"Generation {before} has begun; this worker is of {self._generation}.")
        member = f"{self._keys}:member:{self._rank}"
        if not self._control.ask("SET", member, 1, "NX", "EX", LIFETIME_S) and not position:
            raise already_joined(self._rank, self._generation)
        for url in urls if self._rank == 0 and self._generation else ():
            remove_keys(url, self._root, self._generation)

    def _offer(self, server: Server, kind: int, number: int, key: str, parcel: Bytes, receivers: Sequence[int]) -> None:
        """Write a parcel and raise its flags, all or nothing: a full store must not take the one without the other."""
        step = UL_SHARD if kind == PIECE else UL_AGGR
        up, inline = server.upload, parcel.nbytes <= _INLINE_BYTES
        self._timer.begin(step)
        up.ask("MULTI")
        if not inline:
            up.ask("SET", key, parcel, "EX", LIFETIME_S)
            self._written.append((number, server, key))
        flag = FLAG.pack(kind, inline, number, self._rank) + (parcel.tobytes() if inline else b"")
        kept = 4 * SLOTS * max(8, self._world_size)  # at most 2 × SLOTS × workers can be unread
        for receiver in receivers:
            up.ask("XADD", f"{self._keys}:inbox:{receiver}", "MAXLEN", "~", kept, "*", "", flag)
        self._unanswered += 1
        up.ask("EXEC", then=lambda _: self._taken(step))

    def _taken(self, step: str) -> None:
        self._unanswered -= 1
        self._timer.end(step)

    def _remove_read(self, number: int) -> None:
        """Remove what everybody has read, as number is about to be sent."""
        while self._written and self._written[0][0] <= number - SLOTS:
            _, server, key = self._written.popleft()
            server.upload.ask("UNLINK", key)
        if time.monotonic() - self._renewed_s > _RENEW_S:
            self._renew()

    def _renew(self) -> None:
        """Put off the expiry of what has to last as long as this worker."""
        self._renewed_s = time.monotonic()
        lasting = (f"{self._root}:generation", *(f"{self._keys}:{own}:{self._rank}" for own in _OWN))
        for server in self._servers:
            for key in lasting:
                server.upload.ask("EXPIRE", key, LIFETIME_S)

    def _remove_own(self) -> None:
        done: list[Reply] = []
        self._remove_read(self._written[-1][0] + SLOTS if self._written else 0)
        for server in self._servers:
            server.upload.ask("UNLINK", *(f"{self._keys}:{own}:{self._rank}" for own in _OWN), then=done.append)
        while len(done) < len(self._servers) and self._pipelines.poll(SERVER_TIMEOUT_S):
            pass
