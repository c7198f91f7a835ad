"""Brings archives to all machines of a task: large ones go to the first alone, from which the others fetch them.

A laptop sends a few megabytes a second, machines of one cloud exchange hundreds: so what has to go to n of them leaves
home once instead of n times. Where the machines do not reach each other, each gets its own from home after all.
"""

from __future__ import annotations

import random
import secrets
import threading
import traceback
from collections.abc import Sequence
from typing import Any

from mlcd.clouds.remote.archives import Archive
from mlcd.clouds.remote.node import RemoteNode
from mlcd.errors import CloudError

LARGE_BYTES = 4 << 20  # smaller ones are there before the first machine could pass them on
IDLE_SECONDS = 60.0  # whoever passes on ends when nobody has asked for so long
BEGIN_SECONDS = 20.0  # to wait for it to begin
_PORTS = range(20000, 32000)  # below those that Linux gives to outgoing connections


class Upload:
    """What the machines of a task get, and how. `send` first on all of them, then `relay`."""

    def __init__(self, archives: Sequence[Archive], nodes: Sequence[RemoteNode], python: str) -> None:
        self._large = [archive for archive in archives if archive.bytes >= LARGE_BYTES and len(nodes) > 1]
        self._small = [archive for archive in archives if archive not in self._large]
        self._nodes = nodes
        self._python = python
        self._token = secrets.token_hex(16)
        self._port = random.choice(_PORTS)  # noqa: S311  two tasks must not choose alike, that is all

    def send(self, node: RemoteNode) -> None:
        """What comes from home: the small ones, and to the first machine everything."""
        node.send(self._small)
        if node is self._nodes[0]:
            node.send(self._large)

    def relay(self, node: RemoteNode) -> None:
        """The first machine passes the large ones on; the others fetch them there, or else get them from home."""
        if not self._large:
            return
        if node is self._nodes[0]:
            threading.Thread(target=self._serve, args=(node,), name="relay", daemon=True).start()
            return
        try:
            node.fetch_archives(self._fetching(node), self._large, self._python)
        except CloudError:
            traceback.print_exc()
            node.send(self._large)

    def _serve(self, node: RemoteNode) -> None:
        """It ends by itself; where it cannot begin, the others will notice, and the log says why."""
        try:
            node.serve_archives(self._serving(node), self._large, self._python)
        except CloudError:
            traceback.print_exc()

    def _serving(self, node: RemoteNode) -> dict[str, Any]:
        return {
            "address": node.machine.address,
            "port": self._port,
            "token": self._token,
            "answers": (len(self._nodes) - 1) * len(self._large),
            "idle_seconds": IDLE_SECONDS,
            "archives": [[node.place_of(archive), list(archive.names)] for archive in self._large],
        }

    def _fetching(self, node: RemoteNode) -> dict[str, Any]:
        base = f"http://{self._nodes[0].machine.address}:{self._port}/{self._token}"
        return {
            "urls": [f"{base}/{number}" for number in range(len(self._large))],
            "folders": [node.place_of(archive) for archive in self._large],
            "seconds": BEGIN_SECONDS,
        }
