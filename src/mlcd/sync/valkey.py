"""The parameter store in Redis or Valkey servers, reachable from wherever functions run.

    mlcd:<name>:generation                                        the newest that was joined
    mlcd:<name>:<generation>:piece:<number>:<source>:<receiver>   a parcel for one worker
    mlcd:<name>:<generation>:result:<number>:<source>             a parcel for all
    mlcd:<name>:<generation>:inbox:<rank>                         a stream: the flags of what has come for this worker
    mlcd:<name>:<generation>:notice:<rank>                        a notice, which expires
    mlcd:<name>:<generation>:member:<rank>                        this worker has been here

A parcel is written first, then its flag, in one go; so a flag that is seen stands for a parcel that is there. The receiver
sleeps in the server until a flag comes. Flags are read, not taken: a worker that is restarted reads them again.
With several servers, what a worker aggregates is all on one of them: its rank modulo their number.
"""

from __future__ import annotations

import contextlib
import struct
from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from mlcd.sync.errors import StaleWorker, StoreLost
from mlcd.sync.resp import Connection
from mlcd.sync.store import PIECE, RESULT, SLOTS, Buffers, Bytes, Member, Patience, been_here, best_parcel

_INLINE_BYTES = 1024  # what is not larger travels with its flag
_LIFETIME_S = 6 * 3600  # of what killed workers leave
_FLAG = struct.Struct("<B?QI")  # kind, whether the parcel follows, number, source


class ValkeyStore:
    """Parcels as values, flags as entries of streams."""

    buffers: Buffers | None = None

    def __init__(self, url: str, member: Member) -> None:
        self._me, self._world_size = member.rank, member.world_size
        self._generation = member.generation
        self._root = f"mlcd:{member.name}"
        self._keys = f"{self._root}:{member.generation}"
        self._servers = [Connection(each.strip()) for each in url.split(",")]
        self.parcel_bytes = best_parcel(member.world_size, len(self._servers))
        self._last_flag = [b"0"] * len(self._servers)
        self._arrived: dict[tuple[int, int], dict[int, bytes | None]] = {}  # None: to be fetched
        self._newest = {PIECE: member.position - 1, RESULT: member.position - 1}  # received of each kind
        self._written: deque[tuple[int, Connection, str]] = deque()
        self._enter(member.position)

    def send(self, number: int, pieces: Mapping[int, Bytes]) -> None:
        self._remove_read(number)
        for receiver, piece in pieces.items():
            key = f"{self._keys}:piece:{number}:{self._me}:{receiver}"
            self._offer(self._servers[self._home(receiver)], PIECE, number, key, piece, [receiver])
        self._flush()

    def publish(self, number: int, result: Bytes) -> None:
        self._remove_read(number)
        others = [rank for rank in range(self._world_size) if rank != self._me]
        key = f"{self._keys}:result:{number}:{self._me}"
        self._offer(self._servers[self._home(self._me)], RESULT, number, key, result, others)
        self._flush()

    def receive(
        self, kind: int, number: int, sources: Sequence[int], into: Sequence[Bytes], patience: Patience
    ) -> Iterator[Bytes]:
        homes = [self._home(self._me if kind == PIECE else source) for source in sources]
        for home in sorted(set(homes)):
            here = [source for source, its_home in zip(sources, homes, strict=True) if its_home == home]
            self._await_flags(kind, number, home, here, patience)
        arrived = self._arrived.pop((kind, number), {})
        self._newest[kind] = number
        self._request(
            kind, number, [pair for pair in zip(sources, homes, strict=True) if arrived[pair[0]] is None]
        )
        for source, home, place in zip(sources, homes, into, strict=True):
            self._fetch(self._servers[home], arrived[source], place)
            yield place

    def post(self, notice: str, seconds: float) -> None:
        key = f"{self._keys}:notice:{self._me}"
        self._servers[0].ask("SET", key, notice, "PX", max(1, int(seconds * 1000)))

    def notices(self) -> dict[int, str]:
        found = self._servers[0].ask(
            "MGET", *(f"{self._keys}:notice:{rank}" for rank in range(self._world_size))
        )
        return {rank: raw.decode() for rank, raw in enumerate(found) if raw is not None}

    def newest_generation(self) -> int:
        return int(float(self._servers[0].ask("ZSCORE", f"{self._root}:generation", "newest") or 0))

    def close(self, orderly: bool) -> None:
        with contextlib.suppress(StoreLost):  # what is to be removed is gone
            if orderly:
                self._remove_own()
        for server in self._servers:
            server.close()

    def _enter(self, position: int) -> None:
        before = self.newest_generation()
        self._servers[0].ask("ZADD", f"{self._root}:generation", "GT", self._generation, "newest")
        if before > self._generation:
            raise StaleWorker(f"Generation {before} has begun; this worker is of {self._generation}.")
        if not self._servers[0].ask("SET", f"{self._keys}:member:{self._me}", 1, "NX") and not position:
            raise been_here(self._me, self._generation)
        for server in self._servers if self._me == 0 and self._generation else ():
            self._remove_older(server)

    def _home(self, rank: int) -> int:
        return rank % len(self._servers)

    def _offer(
        self, server: Connection, kind: int, number: int, key: str, parcel: Bytes, receivers: Sequence[int]
    ) -> None:
        """Write a parcel and raise its flags, all or nothing: a full store must not take the one without the other."""
        inline = parcel.nbytes <= _INLINE_BYTES
        if not inline:
            server.command("MULTI")
            server.command("SET", key, parcel, "EX", _LIFETIME_S)
            self._written.append((number, server, key))
        flag = _FLAG.pack(kind, inline, number, self._me) + (parcel.tobytes() if inline else b"")
        kept = 4 * SLOTS * max(8, self._world_size)  # at most 2 × SLOTS × workers can be unread
        for receiver in receivers:
            server.command("XADD", f"{self._keys}:inbox:{receiver}", "MAXLEN", "~", kept, "*", "", flag)
        if not inline:
            server.command("EXEC")

    def _remove_read(self, number: int) -> None:
        """Remove what everybody has read, as number is about to be sent."""
        while self._written and self._written[0][0] <= number - SLOTS:
            _, server, key = self._written.popleft()
            server.command("UNLINK", key)

    def _flush(self) -> None:
        for server in self._servers:
            server.flush()

    def _await_flags(
        self, kind: int, number: int, home: int, sources: Sequence[int], patience: Patience
    ) -> None:
        arrived = self._arrived.setdefault((kind, number), {})
        while missing := [source for source in sources if source not in arrived]:
            if not self._read_inbox(home, patience.slice_s):
                patience.waited(missing)

    def _read_inbox(self, home: int, most_s: float) -> bool:
        """Take note of new flags, and sleep until there are some; False where none came."""
        inbox = f"{self._keys}:inbox:{self._me}"
        wait_ms = max(1, int(most_s * 1000))
        found = self._servers[home].ask(
            "XREAD", "COUNT", 1000, "BLOCK", wait_ms, "STREAMS", inbox, self._last_flag[home]
        )
        for entry, (_, flag) in found[0][1] if found else ():
            self._last_flag[home] = entry
            kind, inline, number, source = _FLAG.unpack_from(flag)
            if number > self._newest[kind]:
                self._arrived.setdefault((kind, number), {})[source] = flag[_FLAG.size :] if inline else None
        return bool(found)

    def _request(self, kind: int, number: int, parcels: Sequence[tuple[int, int]]) -> None:
        """Ask for all parcels at once; their values are read one by one."""
        for source, home in parcels:
            key = f"piece:{number}:{source}:{self._me}" if kind == PIECE else f"result:{number}:{source}"
            self._servers[home].request("GET", f"{self._keys}:{key}")
        for home in sorted({home for _, home in parcels}):
            self._servers[home].flush()
            self._servers[home].catch_up()

    def _fetch(self, server: Connection, inline: bytes | None, place: Bytes) -> None:
        if inline is not None:
            place.data[:] = inline
        elif not server.value_into(place):
            raise StoreLost(
                f"A parcel is gone from the parameter store at {server.name}.",
                "Either the store was emptied, or a newer generation has begun.",
            )

    def _remove_own(self) -> None:
        self._remove_read(self._written[-1][0] + SLOTS if self._written else 0)
        for server in self._servers:
            server.ask("UNLINK", *(f"{self._keys}:{own}:{self._me}" for own in ("inbox", "notice", "member")))

    def _remove_older(self, server: Connection) -> None:
        """Remove what earlier generations have left."""
        cursor = b"0"
        while True:
            cursor, keys = server.ask("SCAN", cursor, "MATCH", f"{self._root}:*", "COUNT", 1000)
            numbers = [(key, key.decode()[len(self._root) + 1 :].partition(":")[0]) for key in keys]
            old = [key for key, number in numbers if number.isdigit() and int(number) < self._generation]
            if old:
                server.ask("UNLINK", *old)
            if cursor == b"0":
                return
