"""What comes for one worker from its servers: flags, and the parcels that they announce.

expected, no flag yet     remembered, fetched as soon as its flag comes
flag, not expected yet    remembered, fetched as soon as it is expected
both                      requested, a few at a time, and read into its array
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from mlcd.sync.errors import StoreLost
from mlcd.sync.store import PIECE, RESULT, Bytes
from mlcd.sync.timing import DL_GRAD, DL_SHARD, OverlapTimer
from mlcd.sync.valkey.connection import Pipeline, Reply

FLAG = struct.Struct("<B?QI")  # kind, whether the parcel follows, number, source
LIFETIME_S = 6 * 3600  # of what killed workers leave
# Of one server at a time: what it has to keep for this worker until the network takes it.
_ASKED_BYTES = 2 << 20

Parcel = tuple[int, int, int]  # kind, number, source


@dataclass
class Server:
    """The connections to one server, and what is to come from it."""

    upload: Pipeline
    download: Pipeline
    flags: Pipeline
    last_flag: bytes = b"0"
    wanted: deque[Parcel] = field(default_factory=deque)  # they are there, and not asked for yet
    asked_bytes: int = 0


class Inbox:
    """The parcels on their way to one worker."""

    def __init__(self, servers: Sequence[Server], keys: str, rank: int, position: int, timer: OverlapTimer) -> None:
        self._servers, self._keys, self._rank = servers, keys, rank
        self._timer = timer
        self._places: dict[Parcel, Bytes] = {}
        self._flagged: dict[Parcel, bytes | None] = {}  # not expected yet; None: to be fetched
        self._here: set[Parcel] = set()
        self._newest = {PIECE: position - 1, RESULT: position - 1}  # taken of each kind
        for server in servers:
            self._wait_for_flags(server)

    def server_of(self, rank: int) -> Server:
        """The server that holds what a worker aggregates."""
        return self._servers[rank % len(self._servers)]

    def expect(self, parcel: Parcel, place: Bytes) -> None:
        """Read this parcel into that array, now or when it comes; it may be expected already."""
        if parcel not in self._places:
            self._places[parcel] = place
            if parcel in self._flagged:
                self._fetch(parcel, self._flagged.pop(parcel))

    def has(self, parcel: Parcel) -> bool:
        """Whether it is in its place."""
        return parcel in self._here

    def take(self, parcel: Parcel) -> Bytes:
        """A parcel that is in its place."""
        self._here.remove(parcel)
        self._newest[parcel[0]] = max(self._newest[parcel[0]], parcel[1] - 1)
        return self._places.pop(parcel)

    def _wait_for_flags(self, server: Server) -> None:
        """Ask the server to answer when flags come."""
        inbox = f"{self._keys}:inbox:{self._rank}"
        server.flags.ask(
            *("XREAD", "COUNT", 1000, "BLOCK", 0, "STREAMS", inbox, server.last_flag),
            then=lambda found: self._flags_came(server, found),
        )

    def _flags_came(self, server: Server, found: Reply) -> None:
        if server.last_flag == b"0":
            server.flags.ask("EXPIRE", f"{self._keys}:inbox:{self._rank}", LIFETIME_S)
        for entry, (_, flag) in found[0][1]:
            server.last_flag = entry
            kind, inline, number, source = FLAG.unpack_from(flag)
            parcel, content = (kind, number, source), flag[FLAG.size :] if inline else None
            if parcel in self._places:
                self._fetch(parcel, content)
            elif number > self._newest[kind]:
                self._flagged[parcel] = content
        self._wait_for_flags(server)

    def _fetch(self, parcel: Parcel, inline: bytes | None) -> None:
        if inline is not None:
            self._places[parcel].data[:] = inline
            self._here.add(parcel)
            return
        kind, _, source = parcel
        server = self.server_of(self._rank if kind == PIECE else source)
        server.wanted.append(parcel)
        self._ask_for_wanted(server)

    def _ask_for_wanted(self, server: Server) -> None:
        while server.wanted and server.asked_bytes < _ASKED_BYTES:
            self._ask_for(server, server.wanted.popleft())

    def _ask_for(self, server: Server, parcel: Parcel) -> None:
        kind, number, source = parcel
        key = f"piece:{number}:{source}:{self._rank}" if kind == PIECE else f"result:{number}:{source}"
        place = self._places[parcel]
        self._timer.begin(DL_SHARD if kind == PIECE else DL_GRAD)
        server.asked_bytes += place.nbytes
        server.download.ask(
            *("GET", f"{self._keys}:{key}"),
            into=place,
            then=lambda value: self._arrived(server, parcel, value),
        )

    def _arrived(self, server: Server, parcel: Parcel, value: Reply) -> None:
        if value is None:
            raise StoreLost(
                f"A parcel is missing in the parameter store at {server.download.name}.",
                "Either the store was emptied, or a newer generation has begun.",
            )
        self._timer.end(DL_SHARD if parcel[0] == PIECE else DL_GRAD)
        server.asked_bytes -= self._places[parcel].nbytes
        self._here.add(parcel)
        self._ask_for_wanted(server)
