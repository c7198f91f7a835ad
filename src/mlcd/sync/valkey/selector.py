"""All pipelines of a worker, sent and received on by the one thread that waits for them."""

from __future__ import annotations

import contextlib
import selectors
import socket
from collections.abc import Iterable

from mlcd.sync.valkey.connection import Pipeline


class PipelineSelector:
    """The pipelines of one worker."""

    def __init__(self, pipelines: Iterable[Pipeline]) -> None:
        self._pipelines = list(pipelines)
        self._watched = dict.fromkeys(self._pipelines, selectors.EVENT_READ)
        self._selector = selectors.DefaultSelector()
        for pipeline in self._pipelines:
            self._selector.register(pipeline.socket, selectors.EVENT_READ, pipeline)

    def send(self) -> None:
        """Send what the network takes now."""
        for pipeline in self._pipelines:
            pipeline.send()

    def poll(self, most_s: float) -> bool:
        """Send and receive what is ready, after waiting for it at most so long; False where nothing was ready."""
        moved = False
        for pipeline in self._pipelines:
            moved |= pipeline.send()
            self._watch(pipeline)
        ready = self._selector.select(0 if moved else most_s)
        for key, events in ready:
            if events & selectors.EVENT_WRITE:
                key.data.send()
            if events & selectors.EVENT_READ:
                key.data.receive()
        return moved or bool(ready)

    def close(self) -> None:
        """Close all connections."""
        self._selector.close()
        for pipeline in self._pipelines:
            with contextlib.suppress(OSError):
                pipeline.socket.shutdown(socket.SHUT_RDWR)
            pipeline.socket.close()

    def _watch(self, pipeline: Pipeline) -> None:
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if pipeline.sending else 0)
        if self._watched[pipeline] != wanted:
            self._watched[pipeline] = wanted
            self._selector.modify(pipeline.socket, wanted, pipeline)
