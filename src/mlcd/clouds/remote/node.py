"""One machine of a task, as its runner sees it: prepared, started, listened to, and downloaded from."""

from __future__ import annotations

import json
import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from mlcd.clouds.received import agent_state, inside, refuse_no_room, regular_bytes
from mlcd.clouds.remote.agent.limits import NodeEnd
from mlcd.clouds.remote.archives import Archive
from mlcd.clouds.remote.base import Machine, Reach, UnreachableError
from mlcd.clouds.remote.lease import Lease
from mlcd.core.progress import NodeUsage
from mlcd.core.task import TaskFolder
from mlcd.errors import CloudError, MlcdError

LISTEN_SECONDS = 0.4
RETRY_SECONDS = 0.3
# A machine that has not answered once by then is out of reach; until then it may be booting.
REACH_SECONDS = 900.0
SLOWEST_BYTES_PER_SECOND = 1e6  # between machines of one cloud


class RemoteNode:
    """A machine with its agent. The listening thread downloads the log and the progress as they grow."""

    def __init__(
        self,
        rank: int,
        machine: Machine,
        reach: Reach,
        lease: Lease,
        task_id: str,
        control: str,
        folder: TaskFolder,
    ) -> None:
        self.rank = rank
        self.machine = machine
        self.reach = reach
        self.lease = lease
        self.root = f"{reach.base}/tasks/{task_id}"
        self.control = f"{control}/{task_id}" if control else f"{self.root}/control"
        self._home = control  # made when the machine boots; empty: nothing is
        self.agent: dict[str, Any] = {}  # as it last reported
        self.reported_at = time.monotonic()  # when it last said something new
        self.problem = ""  # what was wrong with its last report, or why there was none
        self.end_reported_at: float | None = None  # when it first said that its program is over
        self.received_bytes = 0
        self._folder = folder
        self._closed = threading.Event()
        self._listener: threading.Thread | None = None

    # ------------------------------------------------------------------------------------------- beginning

    def wait_until_reachable(self, check: Callable[[], None]) -> None:
        """Return once it answers; its lease is renewed from then on, whatever is sent to it."""
        give_up_at = time.monotonic() + REACH_SECONDS
        while True:
            check()
            try:
                self._knock()
            except UnreachableError as error:
                if time.monotonic() > give_up_at:
                    raise CloudError(
                        f"Machine {self.machine.id} never answered: {error.message}", error.hint
                    ) from error
                time.sleep(RETRY_SECONDS)
            else:
                self.lease.hold()
                return

    def _knock(self) -> None:
        """Raise UnreachableError where it does not answer, or boots: ssh is up before our folder is made."""
        folder = shlex.quote(self._home)
        if self.reach.run(f"[ -w {folder} ]" if self._home else "true", seconds=15.0).code:
            raise UnreachableError(f"{self._home} is not there: is it still booting?")

    def make_room(self) -> None:
        """Renew the lease, and make room for the task: what earlier tasks left on a machine used again goes."""
        self.lease.renew()
        base = shlex.quote(self.reach.base)
        make = " ".join(
            shlex.quote(f"{self.root}/{name}") for name in ("bundle", "copy", "progress", "checkpoints", "outputs")
        )
        others = f"find {base}/tasks -mindepth 1 -maxdepth 1 ! -name {shlex.quote(Path(self.root).name)}"
        self._must(f"mkdir -p {make} {shlex.quote(self.control)}; {others} -exec rm -rf {{}} +", "make room")

    def send(self, archives: Sequence[Archive]) -> None:
        """Send everything."""
        self._own_places(archives)
        for archive in archives:
            self.reach.put(archive.file, self.place_of(archive))

    def _own_places(self, archives: Sequence[Archive]) -> None:
        for archive in archives:
            if archive.into.startswith("/"):
                self._must(_own(archive.into), f"make {archive.into}")

    def place_of(self, archive: Archive) -> str:
        """The folder of the machine that an archive is unpacked into."""
        return archive.into if archive.into.startswith("/") else f"{self.root}/{archive.into}"

    def serve_archives(self, spec: Mapping[str, Any], archives: Sequence[Archive], python: str) -> None:
        """Pass on what was sent here, until all others have it."""
        self._run_agent("relay", "serve", "pass on what it got", spec, python, _patience(archives))

    def fetch_archives(self, spec: Mapping[str, Any], archives: Sequence[Archive], python: str) -> None:
        """Fetch from another machine what was sent there."""
        self._own_places(archives)
        self._run_agent("relay", "fetch", "fetch from another one", spec, python, _patience(archives))

    def start(self, spec: Mapping[str, Any], python: str) -> None:
        """Start the agent; where it was started before, nothing happens."""
        self._run_agent("", f"start {shlex.quote(self.root)}", "start mlcd's agent", spec, python)

    def go(self) -> None:
        """Let the program start: setup is done everywhere."""
        self.reach.write(f"{self.control}/go", b"")

    # -------------------------------------------------------------------------------------------- listening

    def listen(self) -> None:
        """Poll the agent and download what has grown, again and again, in a thread; a second time is quiet."""
        if self._listener is not None:
            return
        self.reported_at = time.monotonic()
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
        return self.agent["why"] == NodeEnd.EXIT and not any(self.agent["codes"])

    @property
    def serves(self) -> bool:
        """Whether it does nothing but serve the other nodes."""
        return bool(self.agent.get("serves", False))

    @property
    def usage(self) -> NodeUsage | None:
        """What it last said that it uses; None: nothing yet."""
        said = self.agent.get("usage")
        known = {fact.name for fact in fields(NodeUsage)}
        return NodeUsage(**{name: said[name] for name in known & said.keys()}) if said else None

    @property
    def exit_code(self) -> int | None:
        """The first code of its processes that is not 0, else 0, or None where nothing has ended."""
        codes = self.agent.get("codes") or [None]
        failed: int | None = next((code for code in codes if code), codes[0])
        return failed

    @property
    def silent_seconds(self) -> float:
        """How long it has said nothing new."""
        return time.monotonic() - self.reported_at

    @property
    def ended_seconds(self) -> float:
        """How long ago it said that its program is over; 0: it has not."""
        return 0.0 if self.end_reported_at is None else time.monotonic() - self.end_reported_at

    def poll(self) -> None:
        """Listen once."""
        text = self.reach.read(f"{self.control}/state.json")
        words = agent_state(text)
        self.problem = ""
        news = words if words and words.get("beat") != self.agent.get("beat") else self.agent
        if news is not self.agent:
            self.reported_at = time.monotonic()
        self._append_new("log", self._folder.log(self.rank), news.get("log", 0))
        for name, size in news.get("progress", {}).items():
            self._append_new(f"progress/{name}", inside(self._folder.progress, name), size)
        self.agent = news  # last: how much was trained is home before the checkpoint that it belongs to
        self.end_reported_at = self.end_reported_at or (time.monotonic() if self.ended else None)

    def fetch(self, name: str, target: Path, most: int) -> None:
        """Copy one file of the task home, of so many bytes at most."""
        target.parent.mkdir(parents=True, exist_ok=True)
        refuse_no_room(target.parent, most)
        self.reach.fetch(f"{self.root}/{name}", target, most)
        self.received_bytes += regular_bytes(target)

    # ----------------------------------------------------------------------------------------------- ending

    def stop(self, grace_seconds: float) -> None:
        """Ask the agent to end the program."""
        self.reach.write(f"{self.control}/stop", f"{grace_seconds:g}".encode())

    def _listen(self) -> None:
        while not self._closed.wait(LISTEN_SECONDS):
            try:
                self.poll()
            except (MlcdError, OSError) as error:  # not now: whoever watches `silent_seconds` will see
                told = error.message if isinstance(error, MlcdError) else str(error)
                self.problem = "" if isinstance(error, UnreachableError) else told
                self._closed.wait(LISTEN_SECONDS)

    def _append_new(self, name: str, target: Path, size: int) -> None:
        """Append what is new; how much is here already tells how much that is."""
        have = target.stat().st_size if target.is_file() else 0
        while have < size:
            data = self.reach.read(f"{self.root}/{name}", have)
            if not data:
                return
            target.parent.mkdir(parents=True, exist_ok=True)
            refuse_no_room(target.parent, len(data))
            with target.open("ab") as file:
                file.write(data)
            have += len(data)
            self.received_bytes += len(data)

    def _run_agent(
        self,
        module: str,
        arguments: str,
        what: str,
        spec: Mapping[str, Any],
        python: str,
        seconds: float = 60.0,
    ) -> None:
        """Run a part of the agent that was sent along, its spec on standard input."""
        name = ".".join(part for part in ("mlcd.clouds.remote.agent", module) if part)
        library = shlex.quote(f"{self.root}/bundle/lib")
        command = f"PYTHONPATH={library} {python} -m {name} {arguments}"
        self._must(command, what, json.dumps(spec).encode(), seconds)

    def _must(self, command: str, what: str, stdin: bytes = b"", seconds: float = 60.0) -> None:
        ran = self.reach.run(command, stdin, seconds)
        if ran.code:
            why = ran.output.strip()[-500:] or f"exit code {ran.code}, without a word"
            raise CloudError(f"Machine {self.machine.id} could not {what}: {why}")


def _patience(archives: Sequence[Archive]) -> float:
    """How long passing them on may take."""
    return 120.0 + sum(archive.bytes for archive in archives) / SLOWEST_BYTES_PER_SECOND


def _own(folder: str) -> str:
    """Have a folder of the machine that we may write to."""
    place = shlex.quote(folder)
    mine = f"sudo -n mkdir -p {place} && sudo -n chown $(id -u) {place}"
    return f"mkdir -p {place} 2>/dev/null && [ -w {place} ] || {{ {mine}; }}"
