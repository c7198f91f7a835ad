"""One machine of a task, as its courier sees it: prepared, started, listened to, and brought home from."""

from __future__ import annotations

import json
import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mlcd.clouds.remote.base import Machine, Reach, UnreachableError
from mlcd.clouds.remote.sending import Parcel
from mlcd.core.task import TaskFolder
from mlcd.errors import CloudError

LISTEN_SECONDS = 0.4
RETRY_SECONDS = 0.3
SLOWEST_BYTES_PER_SECOND = 1e6  # between machines of one cloud


class RemoteNode:
    """A machine with its agent. The listening thread brings the log and the progress home as they grow."""

    def __init__(
        self, rank: int, machine: Machine, reach: Reach, task_id: str, control: str, folder: TaskFolder
    ) -> None:
        self.rank = rank
        self.machine = machine
        self.reach = reach
        self.root = f"{reach.base}/tasks/{task_id}"
        self.control = f"{control}/{task_id}" if control else f"{self.root}/control"
        self.lease_file = f"{control or reach.base}/lease"
        self.agent: dict[str, Any] = {}  # its last words
        self.heard_at = time.monotonic()  # when it last said something new
        self.received_bytes = 0
        self._folder = folder
        self._lease_until = 0.0
        self._lease_seconds = 0.0
        self._closed = threading.Event()
        self._listener: threading.Thread | None = None

    # ------------------------------------------------------------------------------------------- beginning

    def wait_until_reachable(self, check: Callable[[], None]) -> None:
        """Return once it answers."""
        while True:
            check()
            try:
                self.reach.run("true", seconds=15.0)
            except UnreachableError:
                time.sleep(RETRY_SECONDS)
            else:
                return

    def make_room(self, lease_seconds: float) -> None:
        """Renew the lease, and make room for the task: what earlier tasks left on a machine used again goes."""
        self.renew(time.time() + lease_seconds)
        base = shlex.quote(self.reach.base)
        make = " ".join(
            shlex.quote(f"{self.root}/{name}")
            for name in ("bundle", "copy", "progress", "checkpoints", "outputs")
        )
        others = f"find {base}/tasks -mindepth 1 -maxdepth 1 ! -name {shlex.quote(Path(self.root).name)}"
        self._must(f"mkdir -p {make} {shlex.quote(self.control)}; {others} -exec rm -rf {{}} +", "make room")

    def send(self, parcels: Sequence[Parcel]) -> None:
        """Send everything."""
        for parcel in parcels:
            absolute = parcel.into.startswith("/")
            if absolute:
                self._must(_own(parcel.into), f"make {parcel.into}")
            self.reach.put(parcel.archive, self.place_of(parcel))

    def place_of(self, parcel: Parcel) -> str:
        """The folder of the machine that a parcel is unpacked into."""
        return parcel.into if parcel.into.startswith("/") else f"{self.root}/{parcel.into}"

    def serve_parcels(self, orders: Mapping[str, Any], parcels: Sequence[Parcel], python: str) -> None:
        """Pass on what was sent here, until all others have it."""
        self._run_agent("passing", "serve", "pass on what it got", orders, python, _patience(parcels))

    def fetch_parcels(self, orders: Mapping[str, Any], parcels: Sequence[Parcel], python: str) -> None:
        """Fetch from another machine what was sent there."""
        for parcel in parcels:
            if parcel.into.startswith("/"):
                self._must(_own(parcel.into), f"make {parcel.into}")
        self._run_agent("passing", "fetch", "fetch from another one", orders, python, _patience(parcels))

    def start(self, orders: Mapping[str, Any], python: str) -> None:
        """Start the agent; where it was started before, nothing happens."""
        self._run_agent("", f"start {shlex.quote(self.root)}", "start mlcd's agent", orders, python)

    def go(self) -> None:
        """Let the program start: setup is done everywhere."""
        self.reach.write(f"{self.control}/go", b"")

    # -------------------------------------------------------------------------------------------- listening

    def listen(self) -> None:
        """Hear the agent and bring home what has grown, again and again, in a thread; a second time is quiet."""
        if self._listener is not None:
            return
        self.heard_at = time.monotonic()
        self._listener = threading.Thread(target=self._listen, name=f"node-{self.rank}", daemon=True)
        self._listener.start()

    def close(self) -> None:
        """Listen no more."""
        self._closed.set()
        self.reach.close()

    @property
    def ended(self) -> bool:
        """Whether its program is over."""
        return bool(self.agent.get("phase") == "ended")

    @property
    def ended_well(self) -> bool:
        """Whether its program ended by itself, and well; one that only serves is ended with the others."""
        if not self.ended:
            return self.serves
        return self.agent["why"] == "exit" and not any(self.agent["codes"])

    @property
    def serves(self) -> bool:
        """Whether it does nothing but serve the other nodes."""
        return bool(self.agent.get("serves", False))

    @property
    def exit_code(self) -> int | None:
        """The first code of its processes that is not 0, else 0, or None where nothing has ended."""
        codes = self.agent.get("codes") or [None]
        failed: int | None = next((code for code in codes if code), codes[0])
        return failed

    @property
    def silent_seconds(self) -> float:
        """How long it has said nothing new."""
        return time.monotonic() - self.heard_at

    def renew(self, until: float) -> None:
        """Let the machine live on until then."""
        self._lease_until = until
        self.reach.write(self.lease_file, f"{until:.0f}\n".encode())

    def wants_lease(self, lease_seconds: float) -> None:
        """Let the listening thread renew the lease; it does once a quarter of it has passed."""
        self._lease_seconds = lease_seconds

    def hear(self) -> None:
        """Listen once."""
        text = self.reach.read(f"{self.control}/state.json")
        words = _parsed(text)
        if words and words.get("beat") != self.agent.get("beat"):
            self.heard_at = time.monotonic()
            self.agent = words
        self._bring("log", self._folder.log(self.rank), self.agent.get("log", 0))
        for name, size in self.agent.get("progress", {}).items():
            self._bring(f"progress/{name}", self._folder.progress / Path(name).name, size)

    def fetch(self, name: str, target: Path) -> None:
        """Copy one file of the task home."""
        target.parent.mkdir(parents=True, exist_ok=True)
        self.reach.fetch(f"{self.root}/{name}", target)
        self.received_bytes += target.stat().st_size

    def leave(self, until: float) -> None:
        """Listen no more, and let the machine end then, unless somebody else renews its lease."""
        self._closed.set()
        if self._listener is not None:
            self._listener.join(timeout=30.0)  # it must not renew the lease after us
        self.renew(until)

    # ----------------------------------------------------------------------------------------------- ending

    def stop(self, grace_seconds: float) -> None:
        """Ask the agent to end the program."""
        self.reach.write(f"{self.control}/stop", f"{grace_seconds:g}".encode())

    def _listen(self) -> None:
        while not self._closed.wait(LISTEN_SECONDS):
            try:
                self.hear()
                if self._lease_until - time.time() < 0.75 * self._lease_seconds:
                    self.renew(time.time() + self._lease_seconds)
            except CloudError:  # it does not answer now: whoever watches `silent_seconds` will see
                self._closed.wait(LISTEN_SECONDS)

    def _bring(self, name: str, target: Path, size: int) -> None:
        """Append what is new; how much is here already tells how much that is."""
        have = target.stat().st_size if target.is_file() else 0
        while have < size:
            data = self.reach.read(f"{self.root}/{name}", have)
            if not data:
                return
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("ab") as file:
                file.write(data)
            have += len(data)
            self.received_bytes += len(data)

    def _run_agent(
        self,
        module: str,
        arguments: str,
        what: str,
        orders: Mapping[str, Any],
        python: str,
        seconds: float = 60.0,
    ) -> None:
        """Run a part of the agent that was sent along, its orders on standard input."""
        name = ".".join(part for part in ("mlcd.clouds.remote.agent", module) if part)
        library = shlex.quote(f"{self.root}/bundle/lib")
        command = f"PYTHONPATH={library} {python} -m {name} {arguments}"
        self._must(command, what, json.dumps(orders).encode(), seconds)

    def _must(self, command: str, what: str, stdin: bytes = b"", seconds: float = 60.0) -> None:
        ran = self.reach.run(command, stdin, seconds)
        if ran.code:
            raise CloudError(f"Machine {self.machine.id} could not {what}: {ran.output.strip()[-500:]}")


def _patience(parcels: Sequence[Parcel]) -> float:
    """How long passing them on may take."""
    return 120.0 + sum(parcel.bytes for parcel in parcels) / SLOWEST_BYTES_PER_SECOND


def _own(folder: str) -> str:
    """Have a folder of the machine that we may write to."""
    place = shlex.quote(folder)
    mine = f"sudo -n mkdir -p {place} && sudo -n chown $(id -u) {place}"
    return f"mkdir -p {place} 2>/dev/null && [ -w {place} ] || {{ {mine}; }}"


def _parsed(text: bytes | None) -> dict[str, Any]:
    try:
        return dict(json.loads(text)) if text else {}
    except ValueError:
        return {}
