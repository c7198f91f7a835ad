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

from mlcd.sync.arrivals import FLAG, LIFETIME_S, Arrivals, Server
from mlcd.sync.errors import StaleWorker, StoreLost
from mlcd.sync.flows import Flows
from mlcd.sync.keys import key_root, remove_keys
from mlcd.sync.resp import PATIENCE_S, Connection, Flow, Reply
from mlcd.sync.store import PIECE, RESULT, SLOTS, Buffers, Bytes, Member, Patience, been_here, best_parcel
from mlcd.sync.times import UL_AGGR, UL_SHARD, Meter, StepTimes

_INLINE_BYTES = 1024  # what is not larger travels with its flag
_RENEW_S = LIFETIME_S / 6
_OWN = ("inbox", "notice", "member")  # keys of each worker


class ValkeyStore:
    """Parcels as values, flags as entries of streams."""

    buffers: Buffers | None = None

    def __init__(self, url: str, member: Member) -> None:
        self._me, self._world_size = member.rank, member.world_size
        self._generation = member.generation
        self._root = key_root(member.task, member.name)
        self._keys = f"{self._root}:{member.generation}"
        urls = [each.strip() for each in url.split(",")]
        self._control = Connection(urls[0])
        self._enter(urls, member.position)
        self._servers = [Server(up=Flow(each), down=Flow(each), bell=Flow(each)) for each in urls]
        self._flows = Flows(
            flow for server in self._servers for flow in (server.up, server.down, server.bell)
        )
        self.parcel_bytes = best_parcel(member.world_size, len(urls))
        self._meter = Meter()
        self._arrivals = Arrivals(self._servers, self._keys, self._me, member.position, self._meter)
        self._written: deque[tuple[int, Server, str]] = deque()
        self._unanswered = 0  # parcels that the servers have not confirmed yet
        self._renewed_s = time.monotonic()

    @property
    def times(self) -> StepTimes:
        return self._meter.times

    def send(self, number: int, pieces: Mapping[int, Bytes]) -> None:
        self._remove_read(number)
        after = sorted(pieces, key=lambda receiver: (receiver - self._me) % self._world_size)
        for receiver in after:  # everybody begins with another, so that nobody gets all at once
            key = f"{self._keys}:piece:{number}:{self._me}:{receiver}"
            self._offer(self._arrivals.home(receiver), PIECE, number, key, pieces[receiver], [receiver])
        self._flows.send()

    def publish(self, number: int, result: Bytes) -> None:
        self._remove_read(number)
        others = [rank for rank in range(self._world_size) if rank != self._me]
        key = f"{self._keys}:result:{number}:{self._me}"
        self._offer(self._arrivals.home(self._me), RESULT, number, key, result, others)
        self._flows.send()

    def expect(self, kind: int, number: int, sources: Sequence[int], into: Sequence[Bytes]) -> None:
        for source, place in zip(sources, into, strict=True):
            self._arrivals.expect((kind, number, source), place)

    def receive(
        self, kind: int, number: int, sources: Sequence[int], into: Sequence[Bytes], patience: Patience
    ) -> Iterator[Bytes]:
        self.expect(kind, number, sources, into)
        parcels = [(kind, number, source) for source in sources]
        for parcel in parcels:
            while not self._arrivals.has(parcel):
                if not self._flows.turn(patience.slice_s):
                    patience.waited([each[2] for each in parcels if not self._arrivals.has(each)])
            yield self._arrivals.take(parcel)

    def settle(self) -> None:
        while self._unanswered:
            if not self._flows.turn(PATIENCE_S):
                raise StoreLost(f"The parameter store has not answered for {PATIENCE_S:g} s.")

    def post(self, notice: str, seconds: float) -> None:
        key = f"{self._keys}:notice:{self._me}"
        self._control.ask("SET", key, notice, "PX", max(1, int(seconds * 1000)))

    def notices(self) -> dict[int, str]:
        found = self._control.ask(
            "MGET", *(f"{self._keys}:notice:{rank}" for rank in range(self._world_size))
        )
        return {rank: raw.decode() for rank, raw in enumerate(found) if raw is not None}

    def newest_generation(self) -> int:
        return int(float(self._control.ask("ZSCORE", f"{self._root}:generation", "newest") or 0))

    def close(self, orderly: bool) -> None:
        with contextlib.suppress(StoreLost):  # what is to be removed is gone
            if orderly:
                self._remove_own()
        self._flows.close()
        self._control.close()

    def _enter(self, urls: Sequence[str], position: int) -> None:
        before = self.newest_generation()
        self._control.ask("ZADD", f"{self._root}:generation", "GT", self._generation, "newest")
        self._control.ask("EXPIRE", f"{self._root}:generation", LIFETIME_S)
        if before > self._generation:
            raise StaleWorker(f"Generation {before} has begun; this worker is of {self._generation}.")
        member = f"{self._keys}:member:{self._me}"
        if not self._control.ask("SET", member, 1, "NX", "EX", LIFETIME_S) and not position:
            raise been_here(self._me, self._generation)
        for url in urls if self._me == 0 and self._generation else ():
            remove_keys(url, self._root, self._generation)

    def _offer(
        self, server: Server, kind: int, number: int, key: str, parcel: Bytes, receivers: Sequence[int]
    ) -> None:
        """Write a parcel and raise its flags, all or nothing: a full store must not take the one without the other."""
        step = UL_SHARD if kind == PIECE else UL_AGGR
        up, inline = server.up, parcel.nbytes <= _INLINE_BYTES
        self._meter.begin(step)
        up.ask("MULTI")
        if not inline:
            up.ask("SET", key, parcel, "EX", LIFETIME_S)
            self._written.append((number, server, key))
        flag = FLAG.pack(kind, inline, number, self._me) + (parcel.tobytes() if inline else b"")
        kept = 4 * SLOTS * max(8, self._world_size)  # at most 2 × SLOTS × workers can be unread
        for receiver in receivers:
            up.ask("XADD", f"{self._keys}:inbox:{receiver}", "MAXLEN", "~", kept, "*", "", flag)
        self._unanswered += 1
        up.ask("EXEC", then=lambda _: self._taken(step))

    def _taken(self, step: str) -> None:
        self._unanswered -= 1
        self._meter.end(step)

    def _remove_read(self, number: int) -> None:
        """Remove what everybody has read, as number is about to be sent."""
        while self._written and self._written[0][0] <= number - SLOTS:
            _, server, key = self._written.popleft()
            server.up.ask("UNLINK", key)
        if time.monotonic() - self._renewed_s > _RENEW_S:
            self._renew()

    def _renew(self) -> None:
        """Put off the expiry of what has to last as long as this worker."""
        self._renewed_s = time.monotonic()
        lasting = (f"{self._root}:generation", *(f"{self._keys}:{own}:{self._me}" for own in _OWN))
        for server in self._servers:
            for key in lasting:
                server.up.ask("EXPIRE", key, LIFETIME_S)

    def _remove_own(self) -> None:
        done: list[Reply] = []
        self._remove_read(self._written[-1][0] + SLOTS if self._written else 0)
        for server in self._servers:
            server.up.ask("UNLINK", *(f"{self._keys}:{own}:{self._me}" for own in _OWN), then=done.append)
        while len(done) < len(self._servers) and self._flows.turn(PATIENCE_S):
            pass
