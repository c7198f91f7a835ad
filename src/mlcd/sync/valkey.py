"""The parameter store in Redis or Valkey servers, reachable from wherever functions run.

    <root>:generation                                        the newest that was joined
    <root>:<generation>:piece:<number>:<source>:<receiver>   a parcel for one worker
    <root>:<generation>:result:<number>:<source>             a parcel for all
    <root>:<generation>:inbox:<rank>                         a stream: the flags of what has come for this worker
    <root>:<generation>:notice:<rank>                        a notice, which expires
    <root>:<generation>:member:<rank>                        this worker has been here

The root is mlcd:<task>:<group>, so that many tasks may share servers. A parcel is written first, then its flag, in one go; so a flag that is seen stands for a parcel that is there. Flags are
read, not taken: a worker that is restarted reads them again. Everything expires, in case that nobody removes it.

With several servers, what a worker aggregates is all on one of them: its rank modulo their number. To each server a worker
has three connections, so that nothing waits behind something else: parcels go up on one, come down on another, and the
third sleeps in the server until a flag comes.
"""

from __future__ import annotations

import contextlib
import re
import struct
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mlcd.sync.errors import StaleWorker, StoreLost
from mlcd.sync.flows import Flows
from mlcd.sync.resp import PATIENCE_S, Connection, Flow, Reply
from mlcd.sync.store import PIECE, RESULT, SLOTS, Buffers, Bytes, Member, Patience, been_here, best_parcel
from mlcd.sync.times import DL_GRAD, DL_SHARD, UL_AGGR, UL_SHARD, Meter, StepTimes

_INLINE_BYTES = 1024  # what is not larger travels with its flag
_ASKED_BYTES = (
    2 << 20
)  # of one server at a time: what it has to keep for this worker until the network takes it
_LIFETIME_S = 6 * 3600  # of what killed workers leave
_RENEW_S = _LIFETIME_S / 6
_FLAG = struct.Struct("<B?QI")  # kind, whether the parcel follows, number, source
_OWN = ("inbox", "notice", "member")  # keys of each worker

Parcel = tuple[int, int, int]  # kind, number, source


@dataclass
class _Server:
    """The connections to one server, and what is to come from it."""

    up: Flow
    down: Flow
    bell: Flow
    last_flag: bytes = b"0"
    wanted: deque[Parcel] = field(default_factory=deque)  # they are there, and not asked for yet
    asked_bytes: int = 0


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
        self._servers = [_Server(Flow(each), Flow(each), Flow(each)) for each in urls]
        self._flows = Flows(
            flow for server in self._servers for flow in (server.up, server.down, server.bell)
        )
        self.parcel_bytes = best_parcel(member.world_size, len(urls))
        self._meter = Meter()
        self._places: dict[Parcel, Bytes] = {}
        self._flagged: dict[Parcel, bytes | None] = {}  # not expected yet; None: to be fetched
        self._arrived: set[Parcel] = set()
        self._newest = {PIECE: member.position - 1, RESULT: member.position - 1}  # received of each kind
        self._written: deque[tuple[int, _Server, str]] = deque()
        self._unanswered = 0  # parcels that the servers have not confirmed yet
        self._renewed_s = time.monotonic()
        for server in self._servers:
            self._listen(server)

    @property
    def times(self) -> StepTimes:
        return self._meter.times

    def send(self, number: int, pieces: Mapping[int, Bytes]) -> None:
        self._remove_read(number)
        after = sorted(pieces, key=lambda receiver: (receiver - self._me) % self._world_size)
        for receiver in after:  # everybody begins with another, so that nobody gets all at once
            key = f"{self._keys}:piece:{number}:{self._me}:{receiver}"
            self._offer(self._home(receiver), PIECE, number, key, pieces[receiver], [receiver])
        self._flows.send()

    def publish(self, number: int, result: Bytes) -> None:
        self._remove_read(number)
        others = [rank for rank in range(self._world_size) if rank != self._me]
        key = f"{self._keys}:result:{number}:{self._me}"
        self._offer(self._home(self._me), RESULT, number, key, result, others)
        self._flows.send()

    def expect(self, kind: int, number: int, sources: Sequence[int], into: Sequence[Bytes]) -> None:
        for source, place in zip(sources, into, strict=True):
            parcel = (kind, number, source)
            self._places[parcel] = place
            if parcel in self._flagged:
                self._take(parcel, self._flagged.pop(parcel))

    def receive(
        self, kind: int, number: int, sources: Sequence[int], into: Sequence[Bytes], patience: Patience
    ) -> Iterator[Bytes]:
        parcels = [(kind, number, source) for source in sources]
        unexpected = [pair for pair in zip(parcels, into, strict=True) if pair[0] not in self._places]
        for (_, _, source), place in unexpected:
            self.expect(kind, number, [source], [place])
        for parcel in parcels:
            while parcel not in self._arrived:
                if not self._flows.turn(patience.slice_s):
                    patience.waited([each[2] for each in parcels if each not in self._arrived])
            self._arrived.remove(parcel)
            yield self._places.pop(parcel)
        self._newest[kind] = number

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
        self._control.ask("EXPIRE", f"{self._root}:generation", _LIFETIME_S)
        if before > self._generation:
            raise StaleWorker(f"Generation {before} has begun; this worker is of {self._generation}.")
        member = f"{self._keys}:member:{self._me}"
        if not self._control.ask("SET", member, 1, "NX", "EX", _LIFETIME_S) and not position:
            raise been_here(self._me, self._generation)
        for url in urls if self._me == 0 and self._generation else ():
            remove_keys(url, self._root, self._generation)

    def _home(self, rank: int) -> _Server:
        return self._servers[rank % len(self._servers)]

    def _offer(
        self, server: _Server, kind: int, number: int, key: str, parcel: Bytes, receivers: Sequence[int]
    ) -> None:
        """Write a parcel and raise its flags, all or nothing: a full store must not take the one without the other."""
        step = UL_SHARD if kind == PIECE else UL_AGGR
        up, inline = server.up, parcel.nbytes <= _INLINE_BYTES
        self._meter.begin(step)
        up.ask("MULTI")
        if not inline:
            up.ask("SET", key, parcel, "EX", _LIFETIME_S)
            self._written.append((number, server, key))
        flag = _FLAG.pack(kind, inline, number, self._me) + (parcel.tobytes() if inline else b"")
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
                server.up.ask("EXPIRE", key, _LIFETIME_S)

    def _listen(self, server: _Server) -> None:
        """Sleep in the server until flags come."""
        inbox = f"{self._keys}:inbox:{self._me}"
        server.bell.ask(
            *("XREAD", "COUNT", 1000, "BLOCK", 0, "STREAMS", inbox, server.last_flag),
            then=lambda found: self._heard(server, found),
        )

    def _heard(self, server: _Server, found: Reply) -> None:
        if server.last_flag == b"0":
            server.bell.ask("EXPIRE", f"{self._keys}:inbox:{self._me}", _LIFETIME_S)
        for entry, (_, flag) in found[0][1]:
            server.last_flag = entry
            kind, inline, number, source = _FLAG.unpack_from(flag)
            parcel, content = (kind, number, source), flag[_FLAG.size :] if inline else None
            if parcel in self._places:
                self._take(parcel, content)
            elif number > self._newest[kind]:
                self._flagged[parcel] = content
        self._listen(server)

    def _take(self, parcel: Parcel, inline: bytes | None) -> None:
        """Put a parcel where it is expected, now or when it has come."""
        if inline is not None:
            self._places[parcel].data[:] = inline
            self._arrived.add(parcel)
            return
        kind, _, source = parcel
        server = self._home(self._me if kind == PIECE else source)
        server.wanted.append(parcel)
        self._ask_for_wanted(server)

    def _ask_for_wanted(self, server: _Server) -> None:
        while server.wanted and server.asked_bytes < _ASKED_BYTES:
            self._ask_for(server, server.wanted.popleft())

    def _ask_for(self, server: _Server, parcel: Parcel) -> None:
        kind, number, source = parcel
        step, place = DL_SHARD if kind == PIECE else DL_GRAD, self._places[parcel]

        def come(value: Reply) -> None:
            if value is None:
                raise StoreLost(
                    f"A parcel is gone from the parameter store at {server.down.name}.",
                    "Either the store was emptied, or a newer generation has begun.",
                )
            self._meter.end(step)
            server.asked_bytes -= place.nbytes
            self._arrived.add(parcel)
            self._ask_for_wanted(server)

        key = f"piece:{number}:{source}:{self._me}" if kind == PIECE else f"result:{number}:{source}"
        self._meter.begin(step)
        server.asked_bytes += place.nbytes
        server.down.ask("GET", f"{self._keys}:{key}", into=place, then=come)

    def _remove_own(self) -> None:
        done: list[Reply] = []
        self._remove_read(self._written[-1][0] + SLOTS if self._written else 0)
        for server in self._servers:
            server.up.ask("UNLINK", *(f"{self._keys}:{own}:{self._me}" for own in _OWN), then=done.append)
        while len(done) < len(self._servers) and self._flows.turn(PATIENCE_S):
            pass


def key_root(task: str, group: str = "") -> str:
    """What the keys of a task's group begin with; without a group, those of the whole task."""
    parts = [re.sub(r"[^A-Za-z0-9_.-]", "-", part) for part in (task, group) if part]
    return ":".join(["mlcd", *parts])


def remove_task(url: str, task: str) -> None:
    """Remove all that a task has left on the servers of a URL; quiet where there is nothing."""
    for each in url.split(","):
        remove_keys(each.strip(), key_root(task))


def remove_keys(url: str, root: str, before: int | None = None) -> None:
    """Remove what groups whose keys begin so have left on a server: all of it, or of generations before this one."""
    server, cursor = Connection(url), b"0"
    while True:
        cursor, keys = server.ask("SCAN", cursor, "MATCH", f"{root}:*", "COUNT", 1000)
        numbers = [(key, key.decode()[len(root) + 1 :].partition(":")[0]) for key in keys]
        old = [
            key for key, number in numbers if before is None or (number.isdigit() and int(number) < before)
        ]
        if old:
            server.ask("UNLINK", *old)
        if cursor == b"0":
            break
    server.close()
