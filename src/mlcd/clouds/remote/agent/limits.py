"""What an agent listens to: the wish to stop, the task's limit, the machine's lease, its disk, a sign that it will be taken."""

from __future__ import annotations

import json
import shutil
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any

# No proxy knows this machine's metadata.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
NOTICE_SECONDS = 2.0
LEAVING = "leaving"  # a file beside the lease, which whoever holds the machine makes when it has to go
FULL_BYTES = 1 << 20  # a disk with less room than that is full
FULL_SECONDS = 5.0  # and stays so: what a program computes from then on could not be saved
# Of the two minutes that a notice leaves, the rest is for bringing the checkpoint home.
NOTICE_GRACE_SECONDS = 90.0


class NodeEnd(str, Enum):  # noqa: UP042  # Python 3.9
    """Why a node's program is over, as state.json has it."""

    EXIT = "exit"  # by itself
    SETUP = "setup"  # as EXIT, before it was started
    STOPPED = "stopped"
    TIME_LIMIT = "time limit"
    LEASE = "lease"
    SPOT_NOTICE = "spot notice"
    TAKEN = "taken"  # whoever holds the machine has to go
    DISK_FULL = "disk full"
    GONE = "gone"  # the agent itself failed


class Ended(Exception):
    """The program is over, or must be."""

    def __init__(self, why: NodeEnd) -> None:
        super().__init__(why)
        self.why = why


class Limits:
    """Raises Ended once the program must not go on."""

    def __init__(self, root: Path, spec: dict[str, Any]) -> None:
        self._root = root
        self._stop = Path(spec["control"]) / "stop"
        self._lease = Path(spec["lease"]) if spec["lease"] else None
        limit = spec["seconds_left"]
        self._until = None if limit is None else time.monotonic() + limit
        self._leaving = self._lease.with_name(LEAVING) if self._lease else None
        self._leased = False  # whether there ever was a lease
        self._told_to_go = False
        self._room_at = time.monotonic()  # when the disk last had room
        self.notice = ""
        if spec["notice_url"]:
            threading.Thread(target=self._listen, args=(spec["notice_url"],), daemon=True).start()

    def leave(self) -> None:
        """Take note that the machine goes."""
        self._told_to_go = True

    @property
    def told_to_go(self) -> bool:
        """Whether the machine goes: it was told so, or whoever holds it says so by a file."""
        return self._told_to_go or (self._leaving is not None and self._leaving.exists())

    def check(self) -> None:
        """Raise Ended where there is a reason to."""
        if self._stop.exists():
            raise Ended(NodeEnd.STOPPED)
        if self._until is not None and time.monotonic() > self._until:
            raise Ended(NodeEnd.TIME_LIMIT)
        if self.notice:
            raise Ended(NodeEnd.SPOT_NOTICE)
        if self.told_to_go:
            raise Ended(NodeEnd.TAKEN)
        if self.lease_over():
            raise Ended(NodeEnd.LEASE)
        if self.disk_full() and time.monotonic() - self._room_at > FULL_SECONDS:
            raise Ended(NodeEnd.DISK_FULL)

    def grace(self, wanted_seconds: float) -> float:
        """How long the program may take to end: as the wish to stop says, or as it was agreed."""
        with suppress(OSError, ValueError):
            wanted_seconds = float(self._stop.read_text())
        return min(wanted_seconds, NOTICE_GRACE_SECONDS) if self.notice else wanted_seconds

    def lease_over(self) -> bool:
        """Whether nobody has renewed the lease of this machine in time, or its lease was taken away."""
        if self._lease is None:
            return False
        try:
            until = float(self._lease.read_text())
        except FileNotFoundError:
            return self._leased
        except (OSError, ValueError):
            return False
        self._leased = True
        return time.time() > until

    def disk_full(self) -> bool:
        """Whether there is no room to save anything."""
        try:
            full = shutil.disk_usage(self._root).free < FULL_BYTES
        except OSError:  # the task's folder is being removed
            return False
        if not full:
            self._room_at = time.monotonic()
        return full

    def _listen(self, url: str) -> None:
        while not self.notice:
            self.notice = read_notice(url)
            time.sleep(NOTICE_SECONDS)


def read_notice(url: str) -> str:
    """What the machine's metadata say of its end; empty: nothing."""
    with suppress(OSError, ValueError):
        token = _ask(f"{url}/latest/api/token", "PUT", {"X-aws-ec2-metadata-token-ttl-seconds": "300"})
        headers = {"X-aws-ec2-metadata-token": token} if token else {}
        text = _ask(f"{url}/latest/meta-data/spot/instance-action", "GET", headers)
        return str(json.loads(text).get("action", "")) if text else ""
    return ""


def _ask(url: str, method: str, headers: dict[str, str]) -> str:
    request = urllib.request.Request(url, method=method, headers=headers)  # noqa: S310  # the metadata's own address
    try:
        with DIRECT.open(request, timeout=2.0) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError:  # 404: there is no notice
        return ""
