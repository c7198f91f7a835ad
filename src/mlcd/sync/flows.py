"""All connections of a worker in use at a time, in both directions, by the thread that waits for them."""

from __future__ import annotations

import contextlib
import selectors
import socket
from collections.abc import Iterable

from mlcd.sync.resp import Flow


class Flows:
    """All connections of one worker."""

    def __init__(self, flows: Iterable[Flow]) -> None:
        self._flows = list(flows)
        self._watched = dict.fromkeys(self._flows, selectors.EVENT_READ)
        self._selector = selectors.DefaultSelector()
        for flow in self._flows:
            self._selector.register(flow.socket, selectors.EVENT_READ, flow)

    def send(self) -> None:
        """Send what the network takes now."""
        for flow in self._flows:
            flow.send()

    def turn(self, most_s: float) -> bool:
        """Move what can move; sleep until something can, at most so long. False where nothing could."""
        moved = False
        for flow in self._flows:
            moved |= flow.send()
            self._watch(flow)
        ready = self._selector.select(0 if moved else most_s)
        for key, events in ready:
            if events & selectors.EVENT_WRITE:
                key.data.send()
            if events & selectors.EVENT_READ:
                key.data.receive()
        return moved or bool(ready)

    def close(self) -> None:
        """Hang up."""
        self._selector.close()
        for flow in self._flows:
            with contextlib.suppress(OSError):
                flow.socket.shutdown(socket.SHUT_RDWR)
            flow.socket.close()

    def _watch(self, flow: Flow) -> None:
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if flow.sending else 0)
        if self._watched[flow] != wanted:
            self._watched[flow] = wanted
            self._selector.modify(flow.socket, wanted, flow)
